"""Results in units of the source video: tables, MOTChallenge text, and boxes on its frames."""

import csv
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_imagine import model as model
from test_videos import encode
from torch import Tensor

import gswm
from gswm.cli import main
from gswm.commands import track as track_command
from gswm.core.errors import UserError
from gswm.core.words import counted
from gswm.data.importing.film import Film
from gswm.data.importing.frames import TimedFrame
from gswm.data.importing.videos import Cut, Take
from gswm.eval import explained
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.tracking import following
from gswm.tracking.windows import windows_for
from gswm.viz import overlay
from gswm.viz.between import SourceBoxes
from gswm.viz.located import Located
from gswm.viz.overlay import beside
from gswm.viz.pictures import color

WIDTH, HEIGHT = 160, 90


def box_at(t: float) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a moving square, in source pixels."""
    return 10 + 4 * t, 20 + 2 * t, 34 + 4 * t, 44 + 2 * t


def moving(frames: int = 12) -> list[np.ndarray]:
    """A square moves over a dark picture."""
    pictures = []
    for t in range(frames):
        left, top, right, bottom = map(int, box_at(t))
        picture = np.full((HEIGHT, WIDTH, 3), 40, np.uint8)
        picture[top:bottom, left:right] = 90
        pictures.append(picture)
    return pictures


def seen_by_a_perfect_model(film: Film) -> Track:
    """The square's true box in each frame, in the coordinates of the model."""
    boxes = np.array([box_at(n) for n in film.footage.frames], float)
    center, wh = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    xy, hw = (
        torch.from_numpy(np.ascontiguousarray(v)) for v in film.placement.to_model(center, wh)
    )
    time = len(boxes)
    pair, one = (v[None, :, None].float() for v in (xy, hw)), torch.ones(1, time, 1)
    ids = torch.full((1, time, 1), 4)
    return Track(*pair, 0.5 * one, 0.9 * one, ids, reconstruction=None, background=None)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "cut",
    [
        Cut(64),
        Cut(128, fps=5.0),
        Cut(64, fit="crop"),
        Cut(32, fit="stretch", region=(8, 10, 100, 70)),
        Cut(64, region=(3, 5, 90, 80)),
    ],
)
def test_a_table_is_in_pixels_and_seconds_of_the_video(cut: Cut, tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving()), cut)
    seen_by_a_perfect_model(film).save(tmp_path / "a.csv", film)
    found = rows(tmp_path / "a.csv")
    names = ["time", "frame", "id", "x", "y", "width", "height", "depth", "presence"]
    assert list(found[0]) == names
    kept = range(0, 12, 2) if cut.fps else range(12)
    assert [int(row["frame"]) for row in found] == list(kept)
    for row, n in zip(found, kept, strict=True):
        left, top, right, bottom = box_at(n)
        values = [float(row[name]) for name in ("time", "x", "y", "width", "height")]
        wanted = [n / 10, (left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        np.testing.assert_allclose(values, wanted, atol=1e-3)
        assert (row["id"], row["depth"]) == ("4", "0.5")


def test_mot_text_counts_from_one(tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving()), Cut(64, fps=20.0))
    seen_by_a_perfect_model(film).save(tmp_path / "a.txt", film)
    lines = (tmp_path / "a.txt").read_text().splitlines()
    assert len(lines) == 12  # each source frame once, although each was seen twice
    left, top, right, bottom = box_at(2)
    box = f"{left:.2f},{top:.2f},{right - left:.2f},{bottom - top:.2f}"
    assert lines[2] == f"3,5,{box},0.9000,-1,-1,-1"


def test_images_have_no_times(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    for i, picture in enumerate(moving(3)):
        Image.fromarray(picture).save(folder / f"{i}.png")
    film = Film(folder, Cut(64))
    track = seen_by_a_perfect_model(film)
    track.save(tmp_path / "a.csv", film)
    assert [row["time"] for row in rows(tmp_path / "a.csv")] == [""] * 3
    track.save(tmp_path / "a.mp4", film, fps=5)
    assert [round(time, 3) for time, _ in decoded(tmp_path / "a.mp4")] == [0, 0.2, 0.4]


def decoded(path: Path) -> list[tuple[float, np.ndarray]]:
    with av.open(str(path)) as container:
        return [(float(f.time), f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]


def box_drawn(picture: np.ndarray, id: int) -> np.ndarray:
    """Left, top, right and bottom of the pixels that are nearly of an id's color."""
    near = np.abs(picture.astype(int) - color(id)).max(-1) < 60
    ys, xs = np.nonzero(near)
    return np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])


@pytest.mark.parametrize("fps", [None, 2.5])
def test_boxes_are_drawn_on_the_original_frames(fps: float | None, tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(13)), Cut(64, fps=fps))
    seen_by_a_perfect_model(film).save(tmp_path / "out.mp4", film, trail=0)
    drawn = decoded(tmp_path / "out.mp4")
    assert len(drawn) == 13  # also those that the model did not see
    for n, (time, picture) in enumerate(drawn):
        assert picture.shape == (HEIGHT, WIDTH, 3)
        assert time == pytest.approx(n / 10, abs=1e-3)
        left, _, right, bottom = box_drawn(picture, 4)  # above it is the number
        np.testing.assert_allclose([left, right, bottom], np.array(box_at(n))[[0, 2, 3]], atol=2)
    still = np.abs(drawn[0][1][60:, 60:].astype(int) - 40)
    assert still.max() < 12  # all else is as it was


def test_the_region_that_the_model_saw_is_outlined(tmp_path: Path) -> None:
    region = (8, 10, 100, 70)
    film = Film(encode(tmp_path / "a.mp4", moving(2)), Cut(64, region=region))
    seen_by_a_perfect_model(film).save(tmp_path / "out.mp4", film, trail=0)
    picture = decoded(tmp_path / "out.mp4")[0][1].astype(int).min(axis=-1)
    ys, xs = np.nonzero(picture > 150)
    assert [xs.min(), ys.min(), xs.max() + 1 - xs.min(), ys.max() + 1 - ys.min()] == [*region]
    assert (picture[ys.max(), 10:100] > 150).all()


def test_the_progress_of_drawing_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(5)), Cut(64, fps=5.0))
    track, shown = seen_by_a_perfect_model(film), list[object]()

    def bar(*words: object) -> nullcontext:
        shown.append(words)
        return nullcontext(shown.append)

    monkeypatch.setattr(overlay, "progress_bar", bar)
    track.save(tmp_path / "out.mp4", film)
    assert shown == [("drawing a.mp4", "frames", 5), 1, 2, 3, 4, 5]


def test_an_uneven_and_rotated_video_keeps_its_times_and_is_upright(tmp_path: Path) -> None:
    times = [0, 1, 5, 6, 12]
    stored = [np.rot90(picture).copy() for picture in moving(5)]

    def turn(stream) -> None:
        stream.set_display_rotation(-90)

    path = encode(tmp_path / "a.mp4", stored, times=times, setup=turn)
    film = Film(path, Cut(64))
    placement = film.placement
    assert (placement.width, placement.height, placement.rotation) == (WIDTH, HEIGHT, 270)
    np.testing.assert_allclose(film.footage.times, np.array(times) / 10, atol=1e-3)
    seen_by_a_perfect_model(film).save(tmp_path / "out.mp4", film, trail=0)
    drawn = decoded(tmp_path / "out.mp4")
    np.testing.assert_allclose([time for time, _ in drawn], np.array(times) / 10, atol=1e-3)
    assert drawn[4][1].shape == (HEIGHT, WIDTH, 3)
    assert box_drawn(drawn[4][1], 4)[3] == pytest.approx(box_at(4)[3], abs=2)


def test_wide_pixels_stay_wide(tmp_path: Path) -> None:
    def wide(stream) -> None:
        stream.codec_context.sample_aspect_ratio = Fraction(2, 1)

    film = Film(encode(tmp_path / "a.mp4", moving(2), setup=wide), Cut(64))
    assert film.placement.inside[2:] == (64, 18)  # 320 x 90 on the screen
    seen_by_a_perfect_model(film).save(tmp_path / "out.mp4", film)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].sample_aspect_ratio == 2


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_boxes_between_two_frames_are_interpolated_in_time(
    gaps: list[int], data: st.DataObject
) -> None:
    frames = np.cumsum([0, *gaps])
    durations = data.draw(st.lists(st.integers(1, 5), min_size=int(frames[-1]), max_size=40))
    times = np.cumsum([0, *durations])[: frames[-1] + 1] / 10
    x = np.array(data.draw(st.lists(st.integers(0, 99), min_size=len(frames), max_size=99)))
    x = x[: len(frames)].astype(float)
    some, zero = np.ones(len(frames)), np.zeros(len(frames), np.int64)
    located = Located(times[frames], frames, zero, x, x, 2 * some, 2 * some, some, some)
    source = [
        TimedFrame(1, 1, float(t), float(t) + 0.1, lambda _: np.zeros((1, 1, 3), np.uint8), index=i)
        for i, t in enumerate(times)
    ]
    boxes = SourceBoxes(located, frames, times[frames])
    found = [corners[0][0] + 1 for _, corners, _ in beside(boxes, iter(source), trail=0)]
    np.testing.assert_allclose(found, np.interp(times, times[frames], x), atol=0.5 + 1e-6)


def test_a_video_that_breaks_off_is_blamed_and_not_the_file_to_write(tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(4)), Cut(64))
    track = seen_by_a_perfect_model(film)
    film.path.write_bytes(b"gone")
    with pytest.raises(UserError, match=f"cannot read {film.path}"):
        track.save(tmp_path / "out.mp4", film)
    assert not list(tmp_path.glob("*out*"))


def test_an_object_that_leaves_stays_until_the_next_frame_that_the_model_saw() -> None:
    one = np.ones(1)
    located = Located(0 * one, np.array([0]), np.array([7]), 9 * one, 9 * one, one, one, one, one)
    source = [
        TimedFrame(1, 1, i / 10, i / 10 + 0.1, lambda _: np.zeros((1, 1, 3), np.uint8), index=i)
        for i in range(9)
    ]
    boxes = SourceBoxes(located, np.array([0, 4]), np.array([0, 0.4]))
    found = [list(corners) for _, corners, _ in beside(boxes, iter(source), trail=0)]
    assert found == [[7]] * 4 + [[]]
    assert [len(rows) for rows in boxes.every()] == [1, 0, 0, 0, 0]


def random_rows(data: st.DataObject, frames: list[int], times: np.ndarray) -> Located:
    """Some of three objects in each frame."""
    draw = data.draw
    ids = [sorted(draw(st.sets(st.integers(0, 2)))) for _ in frames]
    of = np.array([n for n, there in zip(frames, ids, strict=True) for _ in there], np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    columns = rng.uniform(0, 50, (6, len(of)))
    return Located(
        times[of], of, np.array([id for there in ids for id in there], np.int64), *columns
    )


def naive_between(
    located: Located, seen: list[int], times: np.ndarray
) -> dict[tuple[int, int], list[float]]:
    """Values of each object in each source frame, in loops."""
    rows = list(zip(*located.columns().values(), strict=True))
    known = {(frame, id): values for _, frame, id, *values in rows}
    found = {}
    for n in range(seen[0], seen[-1] + 1):
        before, after = max(k for k in seen if k <= n), min(k for k in seen if k >= n)
        for id in range(3):
            if (before, id) in known and (after, id) in known:
                if before == after:
                    share = 0.0
                elif np.isnan(times).any():
                    share = (n - before) / (after - before)
                else:
                    share = (times[n] - times[before]) / (times[after] - times[before])
                pairs = zip(known[before, id], known[after, id], strict=True)
                found[n, id] = [a + share * (b - a) for a, b in pairs]
    return found


@given(st.lists(st.integers(0, 15), min_size=1, max_size=6), st.booleans(), st.data())
def test_every_source_frame_has_the_objects_of_both_frames_around_it(
    seen: list[int], timed: bool, data: st.DataObject
) -> None:
    steps = np.array(data.draw(st.lists(st.integers(1, 9), min_size=16, max_size=16)))
    times = np.cumsum(steps) / 7 if timed else np.full(16, np.nan)
    frames = sorted(set(seen))
    located = random_rows(data, frames, times)
    every = list(SourceBoxes(located, np.array(frames), times[frames]).every(times))
    joined = Located.join(every)
    found = {
        (frame, id): values
        for time, frame, id, *values in zip(*joined.columns().values(), strict=True)
    }
    wanted = naive_between(located, frames, times)
    assert len(every) == frames[-1] - frames[0] + 1
    assert found.keys() == wanted.keys()
    for key, values in wanted.items():
        assert found[key] == pytest.approx(values)
    np.testing.assert_array_equal(joined.time, times[joined.frame])


@pytest.mark.parametrize("fps", [None, 2.5])
def test_mot_text_has_every_frame_and_a_table_those_that_the_model_saw(
    fps: float | None, tmp_path: Path
) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(12)), Cut(64, fps=fps))
    track = seen_by_a_perfect_model(film)
    for kind in ("csv", "txt"):
        track.save(tmp_path / f"a.{kind}", film)
    seen = [int(row["frame"]) for row in rows(tmp_path / "a.csv")]
    assert seen == ([0, 4, 8] if fps else list(range(12)))
    lines = [line.split(",") for line in (tmp_path / "a.txt").read_text().splitlines()]
    assert [int(line[0]) for line in lines] == list(range(1, seen[-1] + 2))
    for n, line in enumerate(lines):
        left, top, right, bottom = box_at(n)
        wanted = [left, top, right - left, bottom - top]
        np.testing.assert_allclose([float(value) for value in line[2:6]], wanted, atol=0.02)


def test_all_source_frames_have_times(tmp_path: Path) -> None:
    times = [0, 1, 5, 6, 12, 13, 14]
    path = encode(tmp_path / "a.mp4", moving(7), times=times)
    for film in (Film(path, Cut(64)), Film(path, Cut(64, fps=2.0))):
        np.testing.assert_allclose(film.source_times, np.array(times) / 10, atol=1e-3)
    short = Film(path, Cut(64), frames=3)
    assert 3 <= len(short.source_times) <= 7


def test_a_film_of_another_length_is_refused(tmp_path: Path) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(4)), Cut(64))
    track = seen_by_a_perfect_model(film)
    with pytest.raises(UserError, match="4 frames, but the film has 2 frames: track all"):
        track.save(tmp_path / "a.csv", Film(film.path, film.cut, frames=2))
    part = seen_by_a_perfect_model(Film(film.path, film.cut, frames=2))
    with pytest.raises(UserError, match=r"2 frames, but the film has 4 .*frames=2"):
        part.save(tmp_path / "a.csv", film)
    with pytest.raises(UserError, match="must end in"):
        track.save(tmp_path / "a.gif", film)
    with pytest.raises(UserError, match="open_video"):
        track.save(tmp_path / "a.txt")


# -- long videos


@pytest.mark.parametrize("recipe", ["interaction", "maze"])
def test_objects_keep_their_ids_from_chunk_to_chunk(recipe: str) -> None:
    lively = tiny.lively(recipe)
    video = tiny.video(batch=2, time=7)
    whole = lively.infer(video, render=False)
    parts = list(lively.infer_chunks(video.split(3, dim=1)))
    assert [part.pres.shape[1] for part in parts] == [3, 3, 1]
    joined = Track.join(parts)
    assert torch.equal(joined.id, whole.id)
    assert whole.present.any()
    for name in ("xy", "hw", "pres"):
        torch.testing.assert_close(getattr(joined, name), getattr(whole, name))


def test_a_long_video_is_tracked_in_chunks(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encode(tmp_path / "a.mp4", moving(11))
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    args = ["track", str(path), "--model", model, "--out"]
    assert main([*args, str(whole)]) == 0
    seen, batch = [], Take.batch

    def counted(self: Take) -> Tensor:
        seen.append(len(self))
        return batch(self)

    monkeypatch.setattr(following, "CHUNK", 4)
    for name in ("measure", "measure_track"):
        monkeypatch.setattr(explained, name, lambda *_, **__: None)
    monkeypatch.setattr(Take, "batch", counted)
    assert main([*args, str(parts)]) == 0
    assert seen == [4, 4, 3]
    assert parts.read_text() == whole.read_text()
    assert len(rows(whole)) > 11


@pytest.mark.slow
def test_memory_does_not_grow_with_a_video_of_two_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("measure", "measure_track"):
        monkeypatch.setattr(explained, name, lambda *_, **__: None)
    frames, chunks = 20_000, list[weakref.ref]()

    def long(self: Film) -> Iterator[TimedFrame]:
        picture = np.zeros((9, 16, 3), np.uint8)
        for i in range(frames):
            yield TimedFrame(16, 9, 0.36 * i, 0.36 * (i + 1), lambda _: picture, index=i)

    def follow(self: GSWM, before: Tensor, video: Tensor, **_: object) -> Track:
        assert int(before) == sum(chunk_sizes)
        chunks.append(weakref.ref(video))
        alive = sum(chunk() is not None for chunk in chunks)
        assert alive <= 2 * following.CHUNK // following.PIECE
        chunk_sizes.append(video.shape[1])
        one = torch.ones(1, video.shape[1], 1)
        pair = one[..., None].expand(-1, -1, -1, 2)
        state = before + video.shape[1]
        return Track(0 * pair, pair / 2, one, one, 3 * one.long(), None, None, (state,))

    def begin(self: GSWM, video: Tensor, *_: object, **__: object) -> Track:
        return follow(self, torch.tensor(0), video)

    chunk_sizes: list[int] = []
    small = tiny.lively()
    monkeypatch.setattr(Film, "timed", long)
    monkeypatch.setattr(GSWM, "unsettled", begin)
    monkeypatch.setattr(GSWM, "infer_after", follow)
    monkeypatch.setattr(track_command, "resolve", lambda *_: (small, {"about": {}}))
    out = tmp_path / "a.csv"
    assert main(["track", str(tmp_path), "--model", "any", "--out", str(out)]) == 0
    assert max(chunk_sizes) == following.PIECE
    found = rows(out)
    assert [int(row["frame"]) for row in found] == list(range(frames))
    assert found[-1] | {"time": 0} == found[-1] | {"time": 0, "id": "0", "x": "8", "y": "4.5"}
    assert float(found[-1]["time"]) == pytest.approx(0.36 * (frames - 1))


def test_the_progress_is_shown_within_a_chunk_and_all_of_the_first_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film, lively = (
        Film(encode(tmp_path / "a.mp4", moving(7)), Cut(64)),
        tiny.lively("clips", image_size=64),
    )
    whole = lively.infer(film.read())
    seen: list[int] = []
    monkeypatch.setattr(following, "progress_bar", lambda *_: nullcontext(seen.append))
    monkeypatch.setattr(following, "CHUNK", 5)
    monkeypatch.setattr(following, "PIECE", 2)
    windows, behind = windows_for(lively, film)
    parts = following.followed(lively, windows, behind, draw_first=True)
    first, last = (part.track for part in parts)
    assert seen == [2, 4, 5, 7]
    assert first.reconstruction is not None
    assert whole.reconstruction is not None
    torch.testing.assert_close(first.reconstruction, whole.reconstruction[:, :5])
    assert last.reconstruction is None
    assert torch.equal(torch.cat([first.id, last.id], dim=1), whole.id)


def test_a_model_that_cannot_go_on_takes_all_frames_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = Film(encode(tmp_path / "a.mp4", moving(5)), Cut(64))
    lively = tiny.lively()
    monkeypatch.setattr(type(lively), "continues", False)
    seen = windows_for(lively, film)
    (only,) = following.followed(lively, *seen)
    assert len(only.take) == 5
    monkeypatch.setattr(following, "AT_ONCE", 4)
    with pytest.raises(UserError, match="give --frames"):
        list(following.followed(lively, *seen))


# -- the command


def test_several_files_are_written_at_once(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = encode(tmp_path / "a.mp4", moving(5))
    outs = [tmp_path / f"out.{kind}" for kind in ("csv", "txt", "mp4")]
    named = [word for out in outs for word in ("--out", str(out))]
    assert main(["track", str(path), "--model", model, *named]) == 0
    table, text = rows(outs[0]), outs[1].read_text().splitlines()
    assert len(table) == len(text) > 0
    assert len(decoded(outs[2])) == 5
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3
    ids = {row["id"] for row in table}
    assert f"{counted(len(ids), 'track')} in 5 frames, {len(table) / 5:.1f} boxes" in said[0]
    first, line = table[0], text[0].split(",")
    assert (int(line[0]), int(line[1])) == (int(first["frame"]) + 1, int(first["id"]) + 1)
    left = float(first["x"]) - float(first["width"]) / 2
    assert float(line[2]) == pytest.approx(left, abs=0.01)


def test_balls_are_found_where_they_are_in_the_film(tmp_path: Path) -> None:
    """A square of 180 pixels in a wide picture shows balls; all around it is gray."""
    episodes = next(gswm.world("interaction").episodes(seed=3, n=1))
    assert episodes.truth is not None
    pictures = []
    for frame in episodes.video[0, :12]:
        picture = np.full((200, 320, 3), 99, np.uint8)
        small = Image.fromarray(frame.movedim(0, -1).numpy())
        picture[10:190, 70:250] = np.asarray(small.resize((180, 180)))
        pictures.append(picture)
    path, out = encode(tmp_path / "a.mkv", pictures, "ffv1", "gbrp10le"), tmp_path / "a.csv"
    args = ["track", str(path), "--model", "interaction", "--region", "70,10,180,180"]
    assert main([*args, "--out", str(out)]) == 0
    found = rows(out)
    assert {row["id"] for row in found} == {"0", "1", "2"}
    assert len(found) == 3 * 12
    for row in found:
        centers = episodes.truth.positions[0, int(row["frame"])] * (180 / 64)
        here = torch.tensor([float(row["x"]) - 70, float(row["y"]) - 10])
        assert (centers - here).norm(dim=-1).min() < 5  # of a radius of 22 pixels
        assert 30 < float(row["width"]) < 60


def test_an_imported_episode_is_tracked_in_pixels_of_its_video(model: str, tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", moving(8))
    file, out = tmp_path / "a.hdf5", tmp_path / "out.csv"
    assert main(["data", "import", str(path), "--out", str(file), "--frames", "4"]) == 0
    args = ["track", str(file), "--model", model, "--episode", "1", "--out", str(out)]
    assert main([*args, "--frames", "3"]) == 0
    found = rows(out)
    assert sorted({int(row["frame"]) for row in found}) == [4, 5, 6]
    assert {round(float(row["time"]), 3) for row in found} == {0.4, 0.5, 0.6}
    assert max(float(row["x"]) for row in found) > 2  # pixels, not fractions


@pytest.mark.parametrize("kind", ["one frame", "black"])
def test_a_video_with_nothing_to_see_is_tracked(kind: str, model: str, tmp_path: Path) -> None:
    frames = moving(1) if kind == "one frame" else [np.zeros((48, 64, 3), np.uint8)] * 3
    path = encode(tmp_path / "a.mp4", frames)
    outs = [tmp_path / "out" / f"a.{kind}" for kind in ("csv", "txt", "mp4")]
    named = [word for out in outs for word in ("--out", str(out))]
    assert main(["track", str(path), "--model", model, *named]) == 0
    assert len(decoded(outs[2])) == len(frames)


def test_a_video_without_objects_is_followed_by_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = encode(tmp_path / "dark room.mp4", [np.zeros((48, 64, 3), np.uint8)] * 3)
    args = ["track", str(path), "--model", "single-ball", "--out", str(tmp_path / "a.csv")]
    assert main(args) == 0
    said = capsys.readouterr()
    assert "0 tracks in 3 frames" in said.out
    assert f"no object was found: `gswm data look '{path}'`" in said.err


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "region"])
def test_a_video_that_cannot_be_read_is_one_line_and_nothing_is_written(
    kind: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = encode(tmp_path / "a.mp4", moving(5))
    data = path.read_bytes()
    contents = {"empty": b"", "text": b"words\n" * 99, "cut": data[: len(data) // 2]}
    path.write_bytes(contents.get(kind, data))
    region = ["--region", "150,0,40,40"] if kind == "region" else []
    out = ["--out", str(tmp_path / "out" / "a.csv"), "--out", str(tmp_path / "out" / "a.mp4")]
    assert main(["track", str(path), "--model", model, *out, *region]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gswm: cannot read {path}: ")
    assert not (tmp_path / "out").exists()


def test_tracks_without_objects_join() -> None:
    none = torch.zeros(1, 2, 0)
    pair = torch.zeros(1, 2, 0, 2)
    empty = Track(pair, pair, none, none, none.long(), None, None)
    assert Track.join([empty, replace(empty)]).pres.shape == (1, 4, 0)
