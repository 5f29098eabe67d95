"""Measurements of videos, compared with the truth of synthetic ones."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_videos as synthetic
import torch
from PIL import Image
from synthetic_videos import facts_with

from gswm.cli import main
from gswm.commands.look import lines
from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.data.importing.sources import Source
from gswm.data.looking import reels
from gswm.data.looking.facts import Quantiles
from gswm.data.looking.footage import BUDGET, STRETCH, planned
from gswm.data.looking.measuring import Measurement, measure
from gswm.data.looking.moving import Blob, joined_traces, linked, travelling, travels
from gswm.data.looking.reels import file_reel, sought, stored_reels, timetable
from gswm.data.looking.steadiness import shift
from gswm.data.looking.verdicts import verdicts_on
from gswm.data.storage.writer import Writer

Measured = Callable[[str], Measurement]
QUICK = ("discs", "black")
"""Kinds of videos that are measured in every run of the tests."""


def quick_or_slow(kinds: Iterable[str]) -> list[Any]:
    """All kinds, most of which are for the slow tests."""
    return [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


EACH_KIND, EACH_REFUSAL = quick_or_slow(synthetic.KINDS), quick_or_slow(synthetic.REFUSALS)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Each kind of video, measured once."""
    folder, held = tmp_path_factory.mktemp("videos"), {}

    def of(kind: str) -> Measurement:
        if kind not in held:
            refused = kind in synthetic.REFUSALS
            video = synthetic.refusal(kind) if refused else synthetic.make(kind).video
            held[kind] = measure(synthetic.save(folder / f"{kind}.mp4", video))
        return held[kind]

    return of


@pytest.mark.parametrize("kind", EACH_KIND)
def test_what_is_measured_is_near_the_truth(kind: str, measured: Measured) -> None:
    true, facts = synthetic.make(kind), measured(kind).facts
    assert facts.frames == len(true.video)
    assert facts.fps == pytest.approx(synthetic.FPS)
    assert (facts.width, facts.height) == (synthetic.WIDTH, synthetic.HEIGHT)
    width, height = true.sizes[0]
    assert facts.widths.median == pytest.approx(width, rel=0.1, abs=1.5)
    assert facts.heights.median == pytest.approx(height, rel=0.1, abs=1.5)
    assert facts.counts.median == pytest.approx(np.median(true.counts), abs=1)
    assert facts.counts.high == pytest.approx(np.quantile(true.counts, 0.9), abs=0.5)
    assert facts.most <= true.counts.max() + 1
    speeds = true.speeds[true.speeds > 0]
    assert facts.speeds.median == pytest.approx(np.median(speeds), rel=0.15)
    assert facts.speeds.top == pytest.approx(np.quantile(speeds, 0.9), rel=0.25)
    assert verdicts_on(facts) == ()


@pytest.mark.parametrize("kind", EACH_KIND)
def test_boxes_are_where_the_objects_are(kind: str, measured: Measured) -> None:
    true, found = synthetic.make(kind), measured(kind)
    each = found.followed[0]
    near = []
    for blob in (blob for trace in each.travelling for blob in trace):
        at = found.scale * np.array(blob.center)
        there = true.centers[each.stretch.number(blob.time, found.facts.stride)]
        near.append(np.hypot(*(there - at).T).min() < 0.5 * true.sizes.max())
    assert np.mean(near) > 0.95


@pytest.mark.slow
def test_contrast_and_noise_are_those_of_the_video(measured: Measured) -> None:
    assert measured("low_contrast").facts.contrast == pytest.approx(0.08, abs=0.015)
    assert measured("small_fast").facts.contrast == pytest.approx(0.8, abs=0.2)
    assert measured("low_contrast").facts.noise == pytest.approx(0.008, abs=0.004)


@pytest.mark.slow
def test_light_is_that_of_the_video(measured: Measured) -> None:
    low, high = measured("cars").facts.light
    assert low / high == pytest.approx(0.55, abs=0.05)
    assert measured("discs").facts.light == pytest.approx((1, 1), abs=0.02)


@pytest.mark.slow
def test_an_object_that_stands_for_a_while_counts_all_the_time(measured: Measured) -> None:
    assert measured("stop_and_go").facts.counts.low == 2


@pytest.mark.parametrize("kind", EACH_REFUSAL)
def test_what_cannot_be_learned_from_is_refused_with_its_number(
    kind: str, measured: Measured
) -> None:
    first = verdicts_on(measured(kind).facts)[0]
    assert first.fatal
    assert first.name == kind
    assert any(letter.isdigit() for letter in first.line)
    assert first.line.endswith(".")
    assert "\n" not in first.line


@pytest.mark.slow
def test_a_camera_that_pans_is_measured(measured: Measured) -> None:
    assert measured("camera").facts.shift == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_two_scenes_in_one_video_are_a_cut(tmp_path: Path) -> None:
    both = np.concatenate(
        [synthetic.make("discs").video[:60], synthetic.make("visitors").video[20:80]]
    )
    facts = measure(synthetic.save(tmp_path / "both.mp4", both)).facts
    assert facts.cuts == 1
    assert [verdict.name for verdict in verdicts_on(facts)] == ["cuts"]
    assert facts.most == 3


@pytest.mark.slow
def test_a_region_is_measured_alone_in_pixels_of_the_video(tmp_path: Path) -> None:
    path = synthetic.save(tmp_path / "cars.mp4", synthetic.make("cars").video)
    facts = measure(path, (0, 30, 192, 42)).facts
    assert (facts.width, facts.height) == (192, 42)
    assert facts.heights.median == pytest.approx(20, abs=1.5)
    assert facts.most == 2
    with pytest.raises(UserError, match="within 0,0,192,144"):
        measure(path, (0, 0, 193, 10))


@pytest.mark.slow
def test_a_large_video_is_reduced_and_measured_in_its_own_pixels(tmp_path: Path) -> None:
    large = synthetic.make("visitors").video.repeat(2, 1).repeat(2, 2)
    found = measure(synthetic.save(tmp_path / "large.mp4", large))
    assert max(found.background.shape) == 256
    assert found.facts.widths.median == pytest.approx(2 * 16, abs=3)
    assert found.facts.speeds.median == pytest.approx(2 * 4, rel=0.1)


@pytest.mark.slow
def test_images_and_an_imported_file_are_measured_alike(tmp_path: Path, measured: Measured) -> None:
    video = synthetic.make("visitors").video
    (tmp_path / "images").mkdir()
    for i, frame in enumerate(video):
        Image.fromarray(frame).save(tmp_path / "images" / f"{i}.png")
    with Writer(tmp_path / "file.hdf5", "video", attributes={"fps": 20.0}) as writer:
        halves = torch.from_numpy(video[:, :, 24:168]).permute(0, 3, 1, 2).unflatten(0, (2, 50))
        writer.append(Episodes(halves), split="train", source="one.mp4")
    images, stored = measure(tmp_path / "images").facts, measure(tmp_path / "file.hdf5").facts
    assert (images.fps, stored.fps) == (None, 20.0)
    for facts in (images, stored):
        assert facts.frames == 100
        assert facts.widths.median == pytest.approx(16, abs=1)
        assert facts.speeds.median == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(("stated", "rate"), [(0, None), (5, 5.0)])
def test_a_stated_rate_is_a_number_or_none(stated: int, rate: float | None, tmp_path: Path) -> None:
    with Writer(path := tmp_path / "file.hdf5", "video", attributes={"fps": stated}) as writer:
        video = torch.zeros(1, 4, 3, 8, 8, dtype=torch.uint8)
        writer.append(Episodes(video), split="train", source="one.mp4")
    assert [reel.rate for reel in stored_reels(path, most=1)] == [rate]


@pytest.mark.slow
def test_the_videos_of_a_folder_count_together(tmp_path: Path) -> None:
    for kind in ("visitors", "crossing"):
        synthetic.save(tmp_path / f"{kind}.mp4", synthetic.make(kind).video)
    facts = measure(tmp_path).facts
    assert (facts.videos, facts.frames) == (2, 200)
    assert facts.most == 3
    assert facts.cuts == 0


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("count", [1, 20, BUDGET, BUDGET * 10, 100_000])
def test_planned_frames_are_in_the_video_and_few(count: int, stride: int) -> None:
    plan = planned(count, stride, BUDGET)
    numbers = [number for stretch in plan for number in stretch]
    assert len(numbers) <= BUDGET
    assert numbers == sorted(set(numbers))
    assert 0 <= numbers[0] <= numbers[-1] < count
    assert numbers[-1] >= count - STRETCH * stride


def test_seeking_finds_the_frames_that_counting_finds(tmp_path: Path) -> None:
    path = synthetic.save(tmp_path / "x.mp4", synthetic.make("visitors").video)
    numbers = [0, 1, 17, 40, 41, 99]
    by_count = [pixels(64) for pixels in file_reel(Source(path, "x", "train")).read(numbers)]
    times, keys = timetable(path)
    by_time = [pixels(64) for pixels in sought(path, times[numbers], keys)]
    assert len(by_count) == len(by_time) == 6
    assert all(np.array_equal(a, b) for a, b in zip(by_count, by_time, strict=True))


@pytest.mark.parametrize(("down", "right"), [(0, 0), (3, 0), (0, -5), (-7, 4)])
def test_a_shift_is_found_by_phase_correlation(down: int, right: int) -> None:
    ground = synthetic.textured(np.random.default_rng(0)).mean(axis=-1)
    one = ground[20:-20, 20:-20]
    other = ground[20 - down : -20 - down, 20 - right : -20 - right]
    assert shift(one, other) == (right, down)


def blob(time: int, x: float, y: float, side: float = 10.0) -> Blob:
    x, y = float(x), float(y)
    box = (x - side / 2, y - side / 2, x + side / 2, y + side / 2)
    return Blob(time, box, (x, y), side**2, 0.5, 2.0, 0.0)


def test_two_that_pass_each_other_keep_their_traces() -> None:
    frames = [[blob(t, 10 + 4 * t, 50), blob(t, 130 - 4 * t, 62)] for t in range(30)]
    traces = linked(frames, 256)
    assert sorted(len(trace) for trace in traces) == [30, 30]
    assert all(len({b.center[1] for b in trace}) == 1 for trace in traces)


def test_what_sways_does_not_travel_and_what_turns_back_does() -> None:
    time = np.arange(40)
    sways = [blob(t, 50 + 3 * np.sin(t), 50) for t in time.tolist()]
    there_and_back = [blob(t, 50 + 2.0 * min(t, 40 - t), 50) for t in time.tolist()]
    assert not travels(tuple(sways))
    assert travels(tuple(there_and_back))


def test_chance_links_among_leaves_do_not_travel_and_what_drives_past_them_does() -> None:
    rng = np.random.default_rng(0)
    leaves = [
        (blob(2 * t, x, y, 6.0),) for t in range(50) for x, y in rng.uniform((0, 0), 60, (60, 2))
    ]
    by_chance = tuple(blob(t, 10 + 9 * t, 30, 6.0) for t in range(5))
    car = tuple(blob(t, 5 + 3 * t, 30, 12.0) for t in range(20))
    assert travels(by_chance)
    assert travelling([*leaves, by_chance, car], 100) == [car]
    assert travelling([by_chance, car], 100) == [by_chance, car]


def test_fragments_that_move_together_are_one() -> None:
    front = tuple(blob(t, 10 + 3 * t, 50) for t in range(20))
    back = tuple(blob(t, 20 + 3 * t, 50, 6.0) for t in range(20))
    opposite = tuple(blob(t, 70 - 3 * t, 62) for t in range(20))
    assert sorted(len(t) for t in joined_traces([front, back, opposite])) == [20, 20]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("frames", {"frames": 40}),
        ("camera", {"camera": 0.5, "shift": 2.0}),
        ("crowd", {"counts": Quantiles(10.0, 20.0, 31.0, 40.0)}),
        ("covered", {"covered": Quantiles(0.3, 0.5, 0.6, 0.7)}),
        ("small", {"widths": Quantiles(2.0, 3.0, 4.0, 5.0)}),
        ("faint", {"contrast": 0.02}),
        ("cuts", {"cuts": 3}),
        ("rate", {"uneven": 0.3}),
        ("still", {"heights": Quantiles(), "widths": Quantiles()}),
    ],
)
def test_each_weakness_has_its_verdict(name: str, changes: dict[str, object]) -> None:
    assert verdicts_on(facts_with()) == ()
    assert [verdict.name for verdict in verdicts_on(facts_with(**changes))] == [name]


def test_an_uneven_rate_is_evened_out_by_an_import() -> None:
    (verdict,) = verdicts_on(facts_with(uneven=0.3, fps=20.0))
    assert "`gswm data import --fps 20`" in verdict.line  # neither look nor fit has --fps


@pytest.mark.slow
def test_look_prints_draws_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = synthetic.save(tmp_path / "v.mp4", synthetic.make("visitors").video)
    sheet, facts = tmp_path / "look.png", tmp_path / "look.json"
    assert main(["data", "look", str(path), "--out", str(sheet), "--json", str(facts)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("v.mp4: 100 frames, 5.0 s at 20 per second, 192 x 144 px")
    assert re.search(r"num_objects +--objects +\d", said)
    assert "problems" not in said
    assert Image.open(sheet).width > 900
    held = json.loads(facts.read_text())
    assert held["facts"]["frames"] == 100
    assert held["settings"]["image_size"]["value"] in (64, 128)
    assert held["settings"]["image_size"]["reason"]
    assert held["verdicts"] == []


def test_a_count_that_differs_from_the_header_is_approximate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in AVI files that have packets without a frame."""
    path = synthetic.save(tmp_path / "a.mp4", np.zeros((6, 32, 32, 3), np.uint8))
    (reel,) = reels.reels_of(path, 1)
    assert (reel.count, reel.exact) == (6, True)
    monkeypatch.setattr(reels, "stated_count", lambda path: 5)
    assert not reels.reels_of(path, 1)[0].exact
    about = facts_with(frames=1702, exact=False)
    assert lines("a.avi", about, None, ())[0].startswith("a.avi: about 1,702 frames, ")


@pytest.mark.parametrize(
    ("height", "width", "said"),
    [
        (8, 8, "8 x 8 pixels is too small or too narrow to measure; use 10 pixels or more"),
        (8, 2048, "2048 x 8 pixels is too small or too narrow to measure; use 80 pixels or more"),
        (10, 10, None),
        (10, 256, None),
    ],
)
def test_tiny_and_narrow_videos_are_measured_or_refused(
    height: int, width: int, said: str | None, tmp_path: Path
) -> None:
    video = np.full((12, height, width, 3), 90, np.uint8)
    for time, frame in enumerate(video):
        frame[2:4, time : time + 2] = 255
    path = synthetic.save(tmp_path / "a.mkv", video)
    if said is None:
        assert measure(path).facts.frames == 12
        return
    with pytest.raises(UserError, match=re.escape(said)):
        measure(path)


@pytest.mark.slow
def test_look_says_why_a_video_is_of_no_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic.save(tmp_path / "black.mp4", synthetic.refusal("black"))
    facts = tmp_path / "look.json"
    sheet = tmp_path / "look.png"
    assert main(["data", "look", str(path), "--json", str(facts), "--out", str(sheet)]) == 2
    assert "black" in capsys.readouterr().out
    assert json.loads(facts.read_text())["settings"] is None
    assert sheet.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["no.mp4"], "there is no video"),
        (["{here}", "--region", "1,2,3"], "the region is '1,2,3'"),
        (["{here}/text.mp4"], "cannot read"),
        (["{here}", "--out", "x.txt"], "must end in .png"),
        (["{here}", "--json", "x.txt"], "must end in .json"),
    ],
)
def test_a_mistake_is_one_line(
    args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    assert main(["data", "look", *(arg.format(here=tmp_path) for arg in args)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert said in told.err
