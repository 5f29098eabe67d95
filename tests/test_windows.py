"""Small objects: windows over a video, and tracks merged across windows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_located import moving
from test_videos import encode

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.data.placement import Footage, Placement
from gswm.models.track import Track
from gswm.tracking import following, windows
from gswm.tracking.stitching import EDGE, Stitcher
from gswm.tracking.windows import LARGEST, OVERLAP, WindowedFilm
from gswm.viz.located import Located

pytestmark = pytest.mark.filterwarnings("ignore::gswm.tracking.misfit.MisfitWarning")
SIZE = 128


class Still(Film):
    """A film of a given size that has no file."""

    def __init__(self, width: int, height: int, cut: Cut) -> None:
        super().__init__(Path("still.mp4"), cut)
        self._placement = Placement.of(width, height, cut.size)


def over(width: int, height: int, along: int) -> WindowedFilm:
    """WindowedFilm over a picture."""
    return WindowedFilm(Still(width, height, Cut(windows.span(SIZE, along))), SIZE, along)


pictures = st.tuples(st.integers(64, 4000), st.integers(64, 4000)).filter(
    lambda wh: max(wh) <= 6 * min(wh)
)


@given(pictures, st.integers(1, LARGEST))
def test_windows_cover_the_picture_and_overlap(wh: tuple[int, int], along: int) -> None:
    some = over(*wh, along)
    left, top, across, down = some.film.placement.inside
    for first, length, starts in (
        (left, across, sorted({x for x, _ in some.corners})),
        (top, down, sorted({y for _, y in some.corners})),
    ):
        assert starts[0] <= first
        assert starts[-1] + SIZE >= first + length
        steps = np.diff(starts)
        assert (steps <= (1 - OVERLAP) * SIZE + 1).all()
        if length == max(across, down):
            assert len(starts) == along
    side = some.film.cut.size
    assert all(0 <= x <= side - SIZE and 0 <= y <= side - SIZE for x, y in some.corners)
    assert len(some) == len(some.placements())


@given(pictures, st.integers(1, 4), st.data())
def test_a_point_has_one_place_in_the_picture_whichever_window_shows_it(
    wh: tuple[int, int], along: int, data: st.DataObject
) -> None:
    some = over(*wh, along)
    point = np.array([[data.draw(st.floats(0, side)) for side in wh]])
    box = np.array([[10.0, 20.0]])
    for placement in some.placements():
        back, size = placement.to_source(*placement.to_model(point, box))
        np.testing.assert_allclose(back, point, atol=1e-6 * max(wh))
        np.testing.assert_allclose(size, box)


def test_windows_show_what_their_placements_say(tmp_path: Path) -> None:
    pixels = np.zeros((96, 192, 3), np.uint8)
    pixels[30:50, 140:160] = 255
    film = Film(encode(tmp_path / "a.mkv", [pixels], "ffv1", "gbrp10le"), Cut(SIZE))
    some = WindowedFilm.of(film, 2)
    views = some.cut(some.film.read()).float().mean(dim=(1, 2))
    assert views.shape == (2, SIZE, SIZE)
    center, wh = np.array([[150.0, 40.0]]), np.array([[20.0, 20.0]])
    seen = 0
    for view, placement in zip(views, some.placements(), strict=True):
        xy = (placement.to_model(center, wh)[0][0] + 1) / 2 * SIZE
        if (xy > 0).all() and (xy < SIZE).all():
            rows, columns = torch.nonzero(view > 128, as_tuple=True)
            middle = torch.stack([columns, rows], -1).float().mean(dim=0) + 0.5
            np.testing.assert_allclose(middle.numpy(), xy, atol=0.6)
            seen += 1
    assert seen == 1


def tracks_in(some: WindowedFilm, centers: np.ndarray, wh: np.ndarray, least: float = 0.0) -> Track:
    """Tracks in all windows of objects whose centers are inside, by at least `least` of a side.

    An object gets another id in each window, and a new one when it comes back.
    """
    frames, objects = centers.shape[:2]
    shape = len(some), frames, objects
    xy, hw = np.zeros((*shape, 2)), np.zeros((*shape, 2))
    ids = np.full(shape, NOBODY)
    number = 0
    for w, placement in enumerate(some.placements()):
        xy[w], hw[w] = placement.to_model(centers, np.broadcast_to(wh, centers.shape))
        inside = (np.abs(xy[w]) < 1 - 2 * least).all(axis=-1)
        for k in range(objects):
            for t in range(frames):
                if inside[t, k]:
                    before = t > 0 and inside[t - 1, k]
                    number += not before
                    ids[w, t, k] = ids[w, t - 1, k] if before else number
    pres = torch.from_numpy(ids != NOBODY).float()
    return Track(
        torch.from_numpy(xy).float(),
        torch.from_numpy(hw).float(),
        torch.zeros(shape),
        pres,
        torch.from_numpy(ids),
        reconstruction=None,
        background=None,
    )


def footage_of(some: WindowedFilm, frames: int, first: int = 0) -> Footage:
    numbers = np.arange(first, first + frames)
    return Footage(some.film.placement, numbers, numbers / 10)


@given(st.integers(1, 4), st.integers(0, 1000))
def test_objects_keep_their_ids_from_window_to_window(along: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = 640, 400
    begin, end = (rng.uniform((20, 20), (width - 20, height - 20), (2, 2)) for _ in range(2))
    share = np.linspace(0, 1, 30)[:, None, None]
    centers = begin + share * (end - begin)
    apart = np.abs(centers[:, 0] - centers[:, 1]).max(axis=-1) > 30
    centers = centers[: len(apart) if apart.all() else max(1, int(apart.argmin()))]
    some = over(width, height, along)
    stitcher, parts = Stitcher(some), []
    whole = tracks_in(some, centers, np.array([16.0, 12.0]))
    for at in range(0, len(centers), 7):
        piece = map_tensors(lambda x, at=at: x[:, at : at + 7], whole)
        parts.append(stitcher.located(piece, footage_of(some, piece.pres.shape[1], at)))
    found = Located.join(parts)
    assert len(found) == 2 * len(centers)
    places = np.stack([found.x, found.y], -1)
    for k in range(2):
        near = np.abs(places - centers[found.frame, k]).max(axis=-1) < 1e-2
        assert near.sum() == len(centers)
        assert len(set(found.id[near])) == 1
    assert np.array_equal(found.frame, np.sort(found.frame))


def test_an_object_at_the_border_of_one_window_counts_only_if_another_window_sees_it() -> None:
    some = over(640, 400, 2)
    track = tracks_in(some, np.array([[[320.0, 200.0]]]), np.array([16.0, 12.0]))
    columns = sorted({x for x, _ in some.corners})
    assert len(Stitcher(some).located(track, footage_of(some, 1))) == 1
    # Near the right border of the left window, which alone claims to see something there.
    scale = some.film.placement.scale[0]
    x = (columns[0] + SIZE * (1 - EDGE / 2) - some.film.placement.inside[0]) / scale
    track = tracks_in(some, np.array([[[x, 200.0]]]), np.array([16.0, 12.0]))
    assert track.present.sum() > 1
    others = torch.tensor([0.0 if left else 1.0 for left, _ in some.corners])
    alone = replace(track, pres=track.pres * others[:, None, None])
    assert len(Stitcher(some).located(track, footage_of(some, 1))) == 1
    assert len(Stitcher(some).located(alone, footage_of(some, 1))) == 0


def test_a_video_without_objects_has_none_in_windows() -> None:
    some = over(640, 400, 2)
    track = tracks_in(some, np.zeros((3, 1, 2)) - 900, np.array([16.0, 12.0]))
    assert len(Stitcher(some).located(track, footage_of(some, 3))) == 0


@pytest.mark.parametrize(
    ("sizes", "pace", "along"),
    [
        ({1: [0.2, 0.3]}, 0.0, 1),
        ({1: [0.05, 0.05], 2: [0.08, 0.09]}, 0.0, 2),
        ({1: [0.03, 0.03], 2: [0.04, 0.04]}, 0.0, 3),
        ({1: [0.05, 0.05, 0.05, 0.3, 0.3]}, 0.0, 1),
        ({1: [0.05, 0.05]}, 0.8, 1),
        ({1: [], 2: []}, 0.0, 1),
        ({1: [], 2: [0.04]}, 0.0, 3),
    ],
    ids=["large", "small", "tiny", "mixed", "fast", "none", "invisible"],
)
def test_the_size_and_the_pace_of_objects_decide(
    sizes: dict[int, list[float]],
    pace: float,
    along: int,
    small_clips: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(3)), Cut(SIZE))
    monkeypatch.setattr(windows, "sizes_in", lambda _, seen: np.array(sizes[seen.windows.along]))
    monkeypatch.setattr(windows, "pace_in", lambda *_: pace)
    some, behind = windows.windows_for(gswm.load(small_clips), film)
    assert some.along == along
    assert behind is not None
    assert len(behind) == len(some)


def test_sizes_and_pace_are_those_of_the_tracks(small_clips: Path, tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(4)), Cut(SIZE))
    model = gswm.load(small_clips)
    some, behind = windows.windows_for(model, film, 1)
    found = model.infer(film.read(), background=behind)
    assert behind is not None
    seen = windows.WindowSample(some, behind, some.cut(film.read()))
    sizes = windows.sizes_in(model, seen)
    first = found.hw[0, 0][found.present[0, 0]].amax(dim=-1)
    assert len(sizes) > 0
    assert all(np.isclose(sizes, float(size), atol=1e-4).any() for size in first)
    steps = (found.xy[0, 1:] - found.xy[0, :-1]).norm(dim=-1) / 2
    stays = found.present[0, 1:] & found.present[0, :-1] & (found.id[0, 1:] == found.id[0, :-1])
    wanted = (steps / found.hw[0, 1:].amax(dim=-1))[stays].median()
    assert windows.pace_in(model, seen) == pytest.approx(float(wanted), abs=1e-4)


def test_ids_go_on_from_chunk_to_chunk_in_windows(
    small_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encode(tmp_path / "a.mp4", moving(9))
    whole = gswm.track(path, windows=2)
    assert whole.film.cut.size == windows.span(SIZE, 2)
    pairs = list(zip(whole.boxes.frame, whole.boxes.id, strict=True))
    assert len(pairs) == len(set(pairs)) > 0
    monkeypatch.setattr(following, "CHUNK", 4)
    parts = gswm.track(path, windows=2).boxes
    assert np.array_equal(parts.id, whole.boxes.id)
    np.testing.assert_allclose(parts.x, whole.boxes.x, atol=1e-3)


def test_the_command_says_that_it_uses_windows(
    small_clips: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, out = encode(tmp_path / "a.mp4", moving(3)), tmp_path / "a.csv"
    sizes = {1: [0.05], 2: [0.2]}
    monkeypatch.setattr(windows, "sizes_in", lambda _, seen: np.array(sizes[seen.windows.along]))
    monkeypatch.setattr(windows, "pace_in", lambda *_: 0.0)
    assert main(["track", str(path), "--out", str(out)]) == 0
    assert "1 shows it the whole picture" in capsys.readouterr().err
    picture = ["--picture", str(tmp_path / "a.png")]
    assert main(["track", str(path), "--out", str(out), "--force", *picture]) == 0
    assert "--windows" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--windows", "0"], "from 1 to 8"),
        (["--windows", "9"], "from 1 to 8"),
        (["--windows", "2", "--picture", "a.png"], "use --windows 1"),
    ],
)
def test_a_wrong_number_of_windows_is_one_line(
    more: list[str],
    said: str,
    small_clips: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = encode(tmp_path / "a.mp4", moving(3))
    assert main(["track", str(path), "--out", str(tmp_path / "a.csv"), *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "a.csv").exists()


def test_a_model_of_one_video_takes_one_window(small_clips: Path, tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", moving(3))
    model = gswm.load(small_clips)
    film = Film(path, Cut(SIZE))
    behind = torch.full((3, SIZE, SIZE), 0.5)
    assert windows.windows_for(model, film, stored=behind)[0].along == 1
    with pytest.raises(UserError, match="use one window"):
        windows.windows_for(model, film, 2, stored=behind)
    model.videos = {"fit": "letterbox"}
    assert windows.windows_for(model, film)[0].along == 1
