"""Forecasts compared with a model's own tracks, constant velocity and labels."""

import json
from dataclasses import replace
from math import hypot, isnan, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import synthetic_videos
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_evaluate import Seer
from test_imagine import model as model
from test_labelled import mot
from test_videos import encode
from torch import Tensor

from gswm.cli import main
from gswm.commands import labelled
from gswm.core.shapes import NOBODY
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.data.mot import write_mot
from gswm.data.placement import Footage, Placement
from gswm.eval.forecast import (
    EVERY,
    MOST,
    RECENT,
    STEPS,
    ForecastScores,
    Offset,
    Window,
    continued,
    film_windows,
    forecast,
    label_errors,
    starts,
    window_length,
)
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.pixels import psnr
from gswm.fitting.episodes import prepare
from gswm.fitting.showing import Scores, held_out, score
from gswm.models.base import as_float
from gswm.models.track import Track

SIZE, GIVEN, STEPS_HERE = 64, 4, 5
PLACE = Placement.of(128, 96, SIZE)
"""A source picture that is twice as large as the frames, which have black bars."""
STEP = (3.0, 1.0)
"""Velocity of the disc, in source pixels per frame."""


def disc(xy: Tensor) -> Tensor:
    """Frames with a soft disc, at places in source pixels."""
    center = xy / 2 + torch.tensor(PLACE.inside[:2])
    pixel = torch.arange(SIZE) + 0.5
    across, down = ((pixel - c[..., None]).square() for c in center.unbind(-1))
    return (
        (-(down[..., :, None] + across[..., None, :]) / 18)
        .exp()[..., None, :, :]
        .expand(*xy.shape[:-1], 3, SIZE, SIZE)
    )


class Fake(Seer):
    """Finds the bright disc of each frame, and imagines that it moves by a constant step."""

    device = torch.device("cpu")
    cfg = SimpleNamespace(takes_background=False)

    def __init__(self, step: tuple[float, float], lasts: int = STEPS_HERE) -> None:
        torch.nn.Module.__init__(self)
        self.step, self.lasts = torch.tensor(step), lasts

    def perceive(self, video: Tensor, **_: Any) -> Track:
        light = as_float(video).mean(2)
        total = light.sum((-1, -2))
        pixel = torch.arange(SIZE) + 0.5
        x, y = (light.sum(-2) @ pixel / total), (light.sum(-1) @ pixel / total)
        center = (torch.stack([x, y], -1) - torch.tensor(PLACE.inside[:2])) * 2
        track = tracked(center, total > 20)
        return replace(track, states=tuple(center.unbind(1)))

    def imagine_from(self, state: Tensor, steps: int, **_: Any) -> Track:
        ahead = torch.arange(1, steps + 1)[:, None]
        center = state[:, None, None] + ahead * self.step
        there = (torch.arange(steps) < self.lasts).expand(center.shape[:-1])
        drawn = disc(center)
        track = tracked(center, there)
        return replace(track, reconstruction=drawn, background=torch.zeros_like(drawn))


def tracked(center: Tensor, there: Tensor) -> Track:
    """One object of 20 source pixels, in the second of two slots."""
    frame = (center / 2 + torch.tensor(PLACE.inside[:2])) / SIZE * 2 - 1
    xy = torch.stack([torch.zeros_like(frame), frame], dim=-2)
    pres = torch.stack([torch.zeros_like(there), there], dim=-1).float()
    id = torch.where(pres > 0.5, 7, NOBODY)
    return Track(xy, torch.full_like(xy, 10 / SIZE), pres, pres, id, None, None)


def path(frames: int, step: tuple[float, float] = STEP) -> Tensor:
    return torch.tensor([40.0, 30.0]) + torch.arange(frames)[:, None] * torch.tensor(step)


def window(centers: Tensor, *, shown: slice = slice(None), stride: int = 1) -> Window:
    """A disc at these places, in the frames that are `shown`."""
    frames = torch.zeros(len(centers), 3, SIZE, SIZE)
    frames[shown] = disc(centers[shown])
    numbers = np.arange(len(centers)) * stride + 10
    video = (255 * frames).round().to(torch.uint8)
    return Window(video, Footage(PLACE, numbers, numbers / 10))


def scores(step: tuple[float, float], *windows: Window, **how: Any) -> ForecastScores:
    lasts = how.pop("lasts", STEPS_HERE)
    found = forecast(Fake(step, lasts), windows, GIVEN, **how)
    assert found is not None
    return found


def near(value: float) -> Any:
    return pytest.approx(value, abs=0.05)


def test_errors_are_distances_in_source_pixels_and_shares_of_the_height() -> None:
    wrong = (5.0, 2.0)
    each = [k * hypot(2, 1) for k in range(1, STEPS_HERE + 1)]
    found = scores(wrong, window(path(9)), window(path(9) + 3))
    assert found.imagined_px == near(each)
    assert found.imagined.px == near(np.mean(each))
    assert found.imagined.share == pytest.approx(found.imagined.px / 96)
    assert found.straight_px == near([0] * STEPS_HERE)
    assert (found.windows, found.objects, found.kept) == (2, 2, 1)
    assert (found.given, found.steps) == (GIVEN, STEPS_HERE)


def test_a_model_that_knows_the_turn_beats_constant_velocity() -> None:
    turned = torch.cat([path(GIVEN), path(GIVEN)[-1] + path(6, (1.0, 3.0))[1:] - path(1)])
    found = scores((1.0, 3.0), window(turned))
    assert found.imagined_px == near([0] * STEPS_HERE)
    assert found.straight_px == near([k * hypot(2, 2) for k in range(1, STEPS_HERE + 1)])


def test_only_objects_that_are_tracked_before_and_after_count() -> None:
    wrong = (5.0, 1.0)
    leaves = scores(wrong, window(path(9), shown=slice(0, 6)))
    assert leaves.imagined_px[:2] == near([2, 4])
    assert all(map(isnan, leaves.imagined_px[2:]))
    assert leaves.imagined.px == near(3)
    assert leaves.objects == 1
    late = scores(wrong, window(path(9), shown=slice(GIVEN, None)))
    assert (late.windows, late.objects) == (1, 0)
    assert isnan(late.imagined.px)
    assert late.to_json()["imagined"] == {"px": None, "share": None}
    assert dict(late.rows())["objects tracked beyond the given frames, in windows"] == "0 in 1"
    both = scores(wrong, window(path(9)), window(path(9), shown=slice(GIVEN, None)))
    assert (both.windows, both.objects) == (2, 1)


def test_an_object_that_vanishes_while_imagined_stays_where_it_was() -> None:
    found = scores(STEP, window(path(9)), lasts=2)
    step = hypot(*STEP)
    assert found.imagined_px == near([0, 0, step, 2 * step, 3 * step])
    assert found.kept == pytest.approx(2 / 5)


def test_an_object_found_in_the_last_given_frame_rests() -> None:
    found = scores(STEP, window(path(9), shown=slice(GIVEN - 1, None)))
    assert found.straight_px == near([k * hypot(*STEP) for k in range(1, STEPS_HERE + 1)])
    assert found.imagined.px == near(0)


def test_pixels_are_compared_with_the_background_and_the_last_frame() -> None:
    one = window(path(9))
    found = scores(STEP, one)
    true = as_float(one.video[GIVEN:])
    still = as_float(one.video[GIVEN - 1]).expand_as(true)
    assert found.psnr > 40
    assert found.psnr_background == pytest.approx(psnr(0 * true, true).mean().item())
    assert found.psnr_still == pytest.approx(psnr(still, true).mean().item())


def boxes_at(centers: Tensor, frames: list[int]) -> Any:
    """Labels of 20 pixels around these places."""
    places = zip(frames, centers.tolist(), strict=True)
    return mot(*((f + 1, 3, x - 10, y - 10, 20.0, 20.0) for f, (x, y) in places))


def test_labels_are_compared_where_there_are_some() -> None:
    wrong = (5.0, 1.0)
    off = torch.tensor([0.0, 3.0])
    labels = boxes_at(path(9)[[2, 5, 8]] + off, [12, 15, 18])
    found = scores(wrong, window(path(9)), labels=labels).labels
    assert found is not None
    assert found.boxes == 2  # frame 12 is given
    assert (found.tracked.px, found.straight.px) == (near(3), near(3))
    assert found.imagined.px == near((hypot(4, 3) + hypot(10, 3)) / 2)
    assert scores(wrong, window(path(9)), labels=boxes_at(path(1), [100])).labels is None
    elsewhere = boxes_at(path(9)[[5]] + 30, [15])
    assert scores(wrong, window(path(9)), labels=elsewhere).labels is None
    ignored = replace(labels, conf=np.zeros(3))
    assert scores(wrong, window(path(9)), labels=ignored).labels is None


def test_a_label_between_two_frames_is_compared_with_what_is_between() -> None:
    wrong = (5.0, 1.0)
    middle = (path(9)[4] + path(9)[5]) / 2
    labels = boxes_at(middle[None], [10 + 2 * 4 + 1])
    found = scores(wrong, window(path(9), stride=2), labels=labels).labels
    assert found is not None
    assert (found.boxes, found.tracked.px, found.straight.px) == (1, near(0), near(0))
    assert found.imagined.px == near(1.5 * 2)


def test_boxes_end_at_the_border_where_they_are_compared_with_labels() -> None:
    """A box of 20 pixels around (126, 30) in a picture 128 pixels wide, and one outside of it."""
    xy = torch.tensor([[126 / 128, 30 / 96]]).double().expand(1, 2, 1, 2)
    hw = torch.tensor([[20 / 96, 20 / 128]]).double().expand(1, 2, 1, 2)
    there = torch.ones(1, 2, 1, dtype=torch.bool)
    inside = Boxes(xy, hw, there.long(), there)
    beyond = replace(inside, xy=xy + torch.tensor([0.5, 0.0]))
    where = window(path(GIVEN + 1))
    labels = mot((int(where.footage.frames[-1]) + 1, 3, 116.0, 20.0, 12.0, 20.0))
    errors, heights = label_errors([beyond, inside, inside], [where], GIVEN, labels)
    assert errors.tolist() == [[near(6), near(0), near(0)]]
    assert heights.tolist() == [96]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_constant_velocity_is_that_of_loops(seed: int, time: int, steps: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    xy = torch.rand(2, time, 3, 2, generator=rng).double()
    there = torch.rand(2, time, 3, generator=rng) < 0.7
    past = Boxes(xy, torch.ones_like(xy), torch.zeros(2, time, 3, dtype=torch.int64), there)
    found = continued(past, steps)
    assert found.xy.shape == (2, steps, 3, 2)
    for row, slot in ((row, slot) for row in range(2) for slot in range(3)):
        since = 0
        while since < RECENT and since < time - 1 and there[row, time - 2 - since, slot]:
            since += 1
        if not there[row, -1, slot]:
            continue
        last, before = xy[row, -1, slot], xy[row, time - 1 - since, slot]
        step = (last - before) / max(since, 1)
        for k in range(steps):
            torch.testing.assert_close(found.xy[row, k, slot], last + (k + 1) * step)


# -- windows


@given(st.integers(1, 3_000), st.integers(1, 10), st.integers(0, 50))
def test_windows_lie_in_the_part_that_is_used(frames: int, shown: int, first: int) -> None:
    first = min(first, frames)
    begins, length = starts(frames, shown, first), window_length(frames - first, shown)
    assert length <= shown + STEPS
    assert len(begins) <= MOST
    assert all(first <= begin <= frames - length for begin in begins)
    assert len(begins) == 0 or begins.step >= EVERY
    assert (len(begins) > 0) == (frames - first > shown)


@pytest.mark.parametrize("fps", [None, 5.0])
def test_windows_of_a_film_are_its_last_frames(fps: float | None, tmp_path: Path) -> None:
    pixels = np.zeros((80, 48, 80, 3), np.uint8)
    for i, frame in enumerate(pixels):
        frame[:, : i + 1] = 200
    film = Film(encode(tmp_path / "a.mp4", list(pixels)), Cut(SIZE, fps=fps))
    video, numbers = film.read()[0], film.footage.frames
    behind = torch.rand(1, 3, SIZE, SIZE)
    found = list(film_windows(film, 6, 0.5, behind))
    assert found
    for each in found:
        assert each.footage.frames[0] >= 40
        begin = int(np.searchsorted(numbers, each.footage.frames[0]))
        np.testing.assert_array_equal(each.footage.frames, numbers[begin : begin + 16])
        assert torch.equal(each.video, video[begin : begin + 16])
        assert torch.equal(each.background, behind[0])
    begins = [each.footage.frames[0] for each in found]
    assert begins == sorted(set(begins))
    assert not list(film_windows(film, 6, 0.01, behind))


# -- where it is used


@pytest.mark.slow
def test_a_fit_is_scored_on_windows_of_its_held_out_end(tmp_path: Path) -> None:
    discs = synthetic_videos.save(tmp_path / "discs.mp4", synthetic_videos.make("discs").video)
    made = prepare([Film(discs, Cut(SIZE))], 1, tmp_path / "video.hdf5", {})
    end = held_out(made.file)
    windows = list(end.windows(6))
    length = window_length(made.frames, 6)
    for each in windows:
        assert each.video.shape[0] == len(each.footage) == length
    assert torch.equal(windows[0].video, end.episodes.video[0, :length])
    assert windows[0].footage.placement.width == synthetic_videos.WIDTH
    scored = score(tiny.lively("clips", image_size=SIZE), end, 6)
    assert scored.forecast.windows == len(windows)
    names = [str(name) for name, _ in scored.table(None).rows]
    assert any("objects" in name and "windows" in name for name in names)


def test_a_fit_is_shown_beside_its_start_and_told_of_where_it_is_worse() -> None:
    none = Offset(nan, nan)
    ahead = ForecastScores(5, 7, 3, 0, none, none, (), (), nan, 21.0, 20.0, 19.0, None)
    fit, start = Scores(30.0, 1.5, ahead), Scores(31.0, 2.5, replace(ahead, psnr=22.0))
    rows = {str(name): cells for name, *cells in fit.table(start).rows}
    assert rows["objects per frame"] == ["1.50", "2.50"]
    assert ["21.0 dB", "22.0 dB"] in rows.values()
    assert fit.falls_behind(fit) == start.falls_behind(fit) == ""
    assert "31.0 dB against 30.0" in fit.falls_behind(start)


@pytest.fixture
def long_film(tmp_path: Path) -> Path:
    pixels = np.zeros((70, 48, 80, 3), np.uint8)
    for i, frame in enumerate(pixels):
        frame[10:30, i // 2 : 20 + i // 2] = 255
    return encode(tmp_path / "film.mp4", list(pixels))


def test_a_model_and_a_video_are_enough_to_score_imagination(
    long_film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    about = {"about": {}, "given": GIVEN}
    monkeypatch.setattr(labelled, "resolve", lambda *_: (Fake((3.0, 1.0)), about))
    out = tmp_path / "out.json"
    words = ["eval", "fake", str(long_film), "--last", "0.4"]
    assert main([*words, "--json", str(out)]) == 0
    said = capsys.readouterr().out
    ahead = json.loads(out.read_text())["imagination"]
    assert ahead["windows"] > 1
    assert ahead["objects"] > 1
    assert f"{ahead['objects']} in {ahead['windows']}" in said
    assert f"{ahead['imagined']['px']:.1f} px" in said
    labels = tmp_path / "labels.txt"
    write_mot(labels, mot((60, 1, 29, 10, 20, 20)))
    assert main([*words, "--labels", str(labels), "--json", str(out), "--force"]) == 0
    again = json.loads(out.read_text())["imagination"]
    assert again | {"labels": None} == ahead
    assert again["labels"]["tracked"]["px"] == pytest.approx(0, abs=1)
    assert f"{again['labels']['imagined']['px']:.1f} px" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--last", "0.02"], "too short"),
        (["--last", "2"], "between 0 and 1"),
        (["--world", "maze"], "--world does not apply"),
        (["--min-height", "3"], "needs --labels"),
    ],
)
def test_what_cannot_be_imagined_is_refused_in_one_line(
    words: list[str],
    said: str,
    model: str,
    long_film: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["eval", model, str(long_film), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
