"""A warning if a model does not fit a video, and none if it does."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gswm
from gswm.cli import main
from gswm.data.example import CARS
from gswm.eval.explained import (
    FRAMES,
    boxed,
    busiest,
    measure,
    measure_drawn,
    measure_track,
    unexplained,
)
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.tracking import following
from gswm.tracking.misfit import MisfitWarning, warning
from gswm.weights.files import read_header
from gswm.weights.finding import find, shipped

HEADER = {"recipe": gswm.recipe("interaction"), "about": {"step": 36_000}}


def moving(time: int = 12) -> torch.Tensor:
    """A white square that moves over a gray ramp."""
    ramp = torch.linspace(0, 0.5, 64).expand(3, 64, 64)
    video = ramp.repeat(1, time, 1, 1, 1)
    for t in range(time):
        video[0, t, :, 8:16, 4 * t : 4 * t + 8] = 1.0
    return video


def test_nothing_is_left_of_a_perfect_copy_and_all_of_a_still_picture() -> None:
    video = moving()
    still = video.median(dim=1, keepdim=True).values.expand_as(video)
    assert unexplained(video, video) == 0
    assert unexplained(video, still) == pytest.approx(1)
    assert unexplained(video, torch.zeros_like(video)) > 2  # it does not even know the background


@given(st.floats(0, 1))
def test_the_share_is_the_square_of_what_is_missing(part: float) -> None:
    video = moving()
    still = video.median(dim=1, keepdim=True).values
    assert unexplained(video, still + part * (video - still)) == pytest.approx(
        (1 - part) ** 2, abs=1e-4
    )


def test_an_object_that_stands_counts_where_the_background_is_given() -> None:
    standing = moving()[:, 2:3].repeat(1, 12, 1, 1, 1)
    behind = torch.linspace(0, 0.5, 64).expand_as(standing)
    faint = behind + 0.7 * (standing - behind)
    assert unexplained(standing, faint) > 2
    assert unexplained(standing, faint, behind) == pytest.approx(0.09, abs=1e-4)


def test_noise_in_a_still_video_is_no_motion() -> None:
    g = torch.Generator().manual_seed(0)
    video = 0.5 + 0.002 * torch.randn(1, 8, 3, 16, 16, generator=g)
    assert unexplained(video, torch.full_like(video, 0.5)) < 0.1


def test_the_frames_that_change_most_are_looked_at() -> None:
    video = torch.zeros(1, 100, 3, 16, 16)
    video[:, 60:80, :, ::4, ::4] = torch.arange(20).view(1, 20, 1, 1, 1) % 2
    assert 56 <= busiest(video) <= 60
    assert busiest(video[:, :10]) == 0


def test_frames_in_which_nothing_moves_are_not_judged() -> None:
    g = torch.Generator().manual_seed(0)
    video = 0.5 + 0.002 * torch.randn(1, 40, 3, 16, 16, generator=g)
    black = torch.zeros_like(video)
    assert measure_drawn(video, black) is None
    assert measure_drawn(video, black, black) is None
    video[:, 30:, :, 4:8] = 1
    assert (measure_drawn(video, black) or 0) > 2


def said(share: float, about: dict[str, Any] | None = None, own: bool = False) -> str | None:
    header = HEADER | {"about": HEADER["about"] | (about or {})}
    return warning(share, header, video="film.mp4", own=own)


def test_the_line_says_what_is_wrong_how_much_and_what_to_do() -> None:
    assert said(0.5) is None
    line = said(31.9, own=True)
    assert line is not None
    assert "does not fit film.mp4" in line
    assert "31.9 times that of a still picture" in line
    assert "default model, `clips`, or fit one with `gswm fit" in line
    assert "\n" not in line
    assert "95% of what changes" in (said(0.95) or "")


def test_the_default_model_is_not_replaced_by_itself() -> None:
    line = warning(1.5, read_header(find("clips")), video="film.mp4", own=True)
    assert "gswm data look VIDEO" in (line or "")  # which tells why a fit may be refused
    assert "gswm fit" in (line or "")
    assert "default model" not in (line or "")


def test_the_share_on_the_validation_videos_is_compared_where_it_is_known() -> None:
    known = {"validation": {"unexplained": 0.02}}
    assert said(0.25, known) is None
    assert "2% on its own validation videos" in (said(0.35, known) or "")
    tiny_share = {"validation": {"unexplained": 0.0003}}
    assert "under 1% on its own validation videos" in (said(0.35, tiny_share) or "")
    assert said(0.85, {"validation": {"unexplained": 0.3}}) is None


def test_a_training_that_hardly_began_is_told_apart() -> None:
    recipe = gswm.recipe("interaction")
    few = f"12 of {recipe.train.steps:,} steps"
    assert few in (said(1.0, {"step": 12}) or "")
    recipe = replace(recipe, train=replace(recipe.train, steps=12))
    short = {"recipe": recipe, "about": {"step": 12}}
    line = warning(1.0, short, video="interaction", own=False)
    assert few in (line or "")  # the recipe's own number


@pytest.mark.parametrize("command", ["track", "imagine"])
def test_commands_warn_of_a_model_of_another_world(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "single-ball" in shipped()
    table = ["--out", str(tmp_path / "states.csv")]
    how = {
        "track": ["track", str(CARS), "--model", "single-ball", "--frames", "6", *table],
        "imagine": [
            *("imagine", "single-ball", "--video", str(CARS), "--given", "4", "--steps", "2"),
            *("--futures", "1", "--no-mp4", "--out", str(tmp_path / "seen")),
        ],
    }
    assert main(how[command]) == 0
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("warning")]
    assert f"does not fit {CARS.name}" in line


def test_a_model_that_is_loaded_to_track_is_warned_of_in_python() -> None:
    with pytest.warns(MisfitWarning, match=f"does not fit {CARS.name}"):
        gswm.track(CARS, "single-ball", frames=6)
    model = gswm.load("single-ball")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gswm.track(CARS, model, frames=6)


def test_a_film_is_inferred_once_and_drawn_in_its_first_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []
    perceive = GSWM.perceive

    def counted(self: GSWM, video: torch.Tensor, **how: Any) -> Track:
        seen.append((video.shape[1], how["render"]))
        return perceive(self, video, **how)

    monkeypatch.setattr(GSWM, "perceive", counted)
    monkeypatch.setattr(following, "CHUNK", 4)
    picture = tmp_path / "seen.png"
    args = ["--frames", "6", "--out", str(tmp_path / "a.csv"), "--picture", str(picture)]
    assert main(["track", str(CARS), "--model", "single-ball", *args]) == 0
    assert seen == [(4, True)]  # the other frames continue from its last state
    assert picture.is_file()


def test_the_share_of_a_track_is_that_of_its_busiest_frames() -> None:
    video = torch.zeros(1, FRAMES + 4, 3, 64, 64)
    video[:, 10:, :, ::4, ::4] = torch.arange(FRAMES - 6).view(1, -1, 1, 1, 1) % 2
    model = gswm.load("single-ball")
    track = model.infer(video)
    assert track.reconstruction is not None
    at = busiest(video)
    assert at > 0
    parts = video[:, at : at + FRAMES], track.reconstruction[:, at : at + FRAMES]
    assert measure_track(model, video, track) == unexplained(*parts)
    assert measure_track(model, video, replace(track, reconstruction=None)) is None


@given(st.integers(0, 2**32 - 1))
def test_pixels_in_boxes_are_those_whose_centers_are_inside(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    xy, hw = (torch.rand(1, 2, 3, 2, generator=g) * n - m for n, m in ((2.4, 1.2), (0.8, 0)))
    present, size = torch.rand(1, 2, 3, generator=g) > 0.3, (6, 9)
    got = boxed(xy, hw, present, size)
    for t in range(2):
        for row in range(size[0]):
            for column in range(size[1]):
                y, x = (2 * row + 1) / size[0] - 1, (2 * column + 1) / size[1] - 1
                inside = [
                    bool(present[0, t, k])
                    and abs(x - xy[0, t, k, 0].item()) <= hw[0, t, k, 1].item()
                    and abs(y - xy[0, t, k, 1].item()) <= hw[0, t, k, 0].item()
                    for k in range(3)
                ]
                assert got[0, t, 0, row, column].item() == any(inside)


@pytest.mark.parametrize(("there", "share"), [(True, 0.0), (False, 1.0)])
def test_an_object_in_a_box_is_explained_whatever_its_colors(there: bool, share: float) -> None:
    video = moving()
    behind = torch.linspace(0, 0.5, 64).expand_as(video)
    place = [[(8 * t + 8) / 64 - 1, 24 / 64 - 1] for t in range(12)]
    one = torch.ones(1, 12, 1)
    track = Track(
        *(torch.tensor(place)[None, :, None], torch.full((1, 12, 1, 2), 8 / 64)),
        *(one, one * there, torch.zeros(1, 12, 1, dtype=torch.long)),
        *(behind, behind),
    )
    assert measure_track(gswm.build("clips"), video, track) == pytest.approx(share, abs=1e-6)


def test_a_model_on_its_own_world_is_not_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["track", "single-ball", "--out", str(tmp_path / "states.csv")]) == 0
    assert "warning: " not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["interaction", "two-layer-dense", "maze", "obj3d", "scalor-two-layer"]
)
def test_shipped_models_fit_their_own_worlds_and_no_real_video(name: str) -> None:
    header, model = read_header(find(name)), gswm.load(name)
    world = gswm.world(header["recipe"].data.world).shortened(FRAMES)
    episodes = next(iter(world.episodes(world.splits["test"].seed, 3)))
    for video in episodes.video.split(1):
        share = measure(model, video[:, :FRAMES])
        assert warning(share, header, video=name, own=False) is None, share
    film = gswm.open_video(CARS, model.image_size, frames=FRAMES).read()
    assert warning(measure(model, film), header, video="cars", own=True) is not None
