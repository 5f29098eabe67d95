"""The report's comparisons: all models side by side, and the 3D world with two protocols."""

import math
import statistics
from pathlib import Path

import pytest
from measured import (
    ball_example,
    by_slotformer,
    labels,
    maze_result,
    of,
    result,
    row,
    saved,
    solid_result,
)

from gswm.cli import main
from gswm.commands.weights import listed
from gswm.eval.metrics.distance import LIMIT
from gswm.report import figures, filmstrips
from gswm.report.cells import EMPTY, UNMEASURED
from gswm.report.paper import BALLS, MODELS, SLOTFORMER, TABULATED
from gswm.report.results import FAIL, read, standard_error
from gswm.report.tables import BOUNDED, EXTRA, MARKED, SAME, SAMPLED, tables


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """Each model in each world of the tables."""
    return saved(tmp_path / "in", *(of(model, world) for model in MODELS for world in BALLS))


def test_all_models_are_in_both_tables(everything: Path) -> None:
    made = tables(read([everything]))
    for name, score in (("error", "0.250"), ("mota", "0.9900")):
        for world in BALLS:
            cells = row(made[name], world)
            shown = [cells[f"{model}, here"].removesuffix(MARKED) for model in MODELS]
            assert shown == [score] * len(MODELS)
            assert {f"{model}, paper" in cells for model in TABULATED} == {True}
            assert not any(f"{model}, paper" in cells for model in MODELS if model not in TABULATED)
    assert [line[:2] for line in made["strict"].rows] == [(w, m) for w in BALLS for m in MODELS]


def test_gaps_are_relative_to_the_papers_errors(tmp_path: Path) -> None:
    runs = of("SCALOR", "interaction", scores={"center_error": 1.1044}), of("STOVE", "two-layer")
    made = tables(read([saved(tmp_path, *runs)]))["gaps"]
    assert [row(made, "interaction")[model] for model in TABULATED] == ["–", "+10 %", "–"]
    assert row(made, "two-layer")["STOVE"] == "–"
    assert made.head == ("", *TABULATED)


SAMPLES = {"name": "gswm-10-90", "given": 10, "posterior": "sample"}


def test_results_by_the_releases_protocol_have_a_column_of_their_own(tmp_path: Path) -> None:
    drawn = of("G-SWM", "two-layer", protocol=SAMPLES, scores={"center_error": 0.2544, "mota": 1.0})
    runs = of("G-SWM", "two-layer"), of("G-SWM", "interaction"), of("STOVE", "interaction"), drawn
    made = tables(read([saved(tmp_path, *runs)]))
    two = row(made["error"], "two-layer")
    assert (two["G-SWM, sampled, here"], two["G-SWM, here"]) == ("0.254", "0.250")
    assert row(made["error"], "interaction")["G-SWM, sampled, here"] == UNMEASURED
    assert row(made["error"], "occlusion")["G-SWM, sampled, here"] == EMPTY
    alone = tables(read([saved(tmp_path / "alone", drawn)]))["error"]
    assert row(alone, "two-layer")["G-SWM, here"] == UNMEASURED
    assert row(made["mota"], "two-layer")["G-SWM, sampled, here"] == "1.0000"
    assert "STOVE, sampled, here" not in made["error"].head
    assert SAMPLED in made["error"].text
    gaps = row(made["gaps"], "two-layer")
    assert (gaps["G-SWM, sampled"], gaps["G-SWM"]) == ("+20 %", "+18 %")
    assert row(made["strict"], "two-layer")["center error"] == "0.250"
    assert "others" not in made
    assert SAMPLED not in tables(read([saved(tmp_path / "mean", runs[0])]))["error"].text


@pytest.mark.parametrize(
    ("values", "said"),
    [([0.206, 0.214], SAME), ([0.204, 0.216, 0.220], SAME), ([0.205, 0.206], ""), ([], "")],
)
def test_a_gap_within_the_standard_error_is_no_difference(
    values: list[float], said: str, tmp_path: Path
) -> None:
    """The paper's error in this world is 0.212."""
    mean = statistics.fmean(values) if values else 0.2
    held = {"center_error": [*values, None]}
    run = of("G-SWM", "two-layer", scores={"center_error": mean}, per_episode=held)
    cell = row(tables(read([saved(tmp_path, run)]))["gaps"], "two-layer")["G-SWM"]
    shown = f"{100 * (mean / 0.212 - 1):+.0f} %"
    if values:
        error = statistics.stdev(values) / math.sqrt(len(values))
        assert (abs(mean - 0.212) <= error) == bool(said)
        shown += f" ± {100 * error / 0.212:.0f} %"
    assert cell == shown + (f", {said}" if said else "")


def test_over_seeds_the_standard_error_is_of_mean_episodes_and_of_the_seeds(
    tmp_path: Path,
) -> None:
    scores = [[0.1, 0.3, 0.5], [0.3, 0.7, 0.2]]
    runs = [
        of("G-SWM", "two-layer", seed=i, scores={"x": statistics.fmean(s)}, per_episode={"x": s})
        for i, s in enumerate(scores)
    ]
    episodes = [statistics.fmean(pair) for pair in zip(*scores, strict=True)]
    parts = (
        statistics.stdev(episodes) / math.sqrt(3),
        statistics.stdev([statistics.fmean(s) for s in scores]) / math.sqrt(2),
    )
    found = read([saved(tmp_path / "two", *runs)]).of("G-SWM", "two-layer")
    assert standard_error(found, "x") == pytest.approx(math.sqrt(sum(p * p for p in parts)))
    assert standard_error(found, "y") is None
    short = of("G-SWM", "two-layer", seed=3, scores={"x": 0.1}, per_episode={"x": [0.1]})
    found = read([saved(tmp_path / "three", *runs, short)]).of("G-SWM", "two-layer")
    assert standard_error(found, "x") is None


def test_what_favors_scalor_is_said_beside_its_scores(tmp_path: Path) -> None:
    alone, plain = of("SCALOR", "occlusion"), of("SCALOR", "interaction")
    alone["model"]["train"] += " --model.schedule.prior_only 0"
    made = tables(read([saved(tmp_path / "in", alone, plain, of("STOVE", "occlusion"))]))
    marks = {
        (name, world): row(made[name], world)["SCALOR, here"].endswith(MARKED)
        for name in ("error", "mota")
        for world in ("occlusion", "interaction")
    }
    assert [which for which, is_marked in marks.items() if not is_marked] == [
        ("error", "interaction")
    ]
    assert row(made["mota"], "occlusion")["STOVE, here"] == "0.9900"
    for name, notes in {"error": [EXTRA], "mota": [BOUNDED, EXTRA], "tracking": [BOUNDED]}.items():
        assert [note for note in (BOUNDED, EXTRA) if note in made[name].text] == notes
    without = tables(read([saved(tmp_path / "none", of("STOVE", "occlusion"))]))
    assert not any("SCALOR" in without[name].text for name in ("error", "mota", "tracking"))


def test_a_sampled_future_has_a_column_if_it_was_measured(tmp_path: Path) -> None:
    scores = {"center_error": 0.25, "center_error_sample": 0.347}
    runs = of("G-SWM", "two-layer", scores=scores), of("STOVE", "two-layer")
    made = tables(read([saved(tmp_path / "with", *runs)]))["strict"]
    name = "one sampled future"
    shown = {r[1]: dict(zip(made.head, r, strict=True)).get(name) for r in made.rows}
    assert (shown["G-SWM"], shown["STOVE"]) == ("", "–")
    assert row(made, "two-layer")[name] == "0.347"
    assert name not in tables(read([saved(tmp_path / "none", runs[1])]))["strict"].head


def test_a_training_says_of_how_many_runs_it_is(tmp_path: Path) -> None:
    began = {"step": 12_000, "minutes": 3.0}
    known = began | {"runs": [{"command": "gswm train x", "step": 12_000}]}
    abouts = [{}, {"began": began}, {"began": known}, {"began": known, "runs": "three, by hand"}]
    want = ["one", "12,000 steps, then this one"]
    want += ["`gswm train x` to step 12,000, then this one", "three, by hand"]
    for i, about in enumerate(abouts):
        made = result("two-layer")
        made["model"]["about"] |= about
        files = saved(tmp_path / str(i), made)
        said = row(tables(read([files]))["trainings"], "G-SWM")["runs"]
        assert said == want[i]


@pytest.mark.parametrize("score", [0.25, None])
def test_a_model_that_loses_its_objects_fails(score: float | None, tmp_path: Path) -> None:
    lost = {"center_error": score, "strict_error": 8.0, "mota": FAIL - 0.01}
    kept = {"center_error": 0.3, "strict_error": 0.3, "mota": FAIL}
    runs = of("STOVE", "two-layer", scores=lost), of("STOVE", "interaction", scores=kept)
    found = read([saved(tmp_path, *runs)])
    made = tables(found)
    two = row(made["error"], "two-layer")
    assert two["STOVE, paper"] == "fails"
    assert two["STOVE, here"] == ("fails" if score is None else "fails: 0.250")
    assert row(made["mota"], "two-layer")["STOVE, here"] == "fails: 0.4900"
    assert row(made["error"], "interaction")["STOVE, here"] == "0.300"
    assert row(made["error"], "two-layer-dense")["STOVE, here"] == EMPTY
    named = labels(figures.error(found))
    assert (named.count("STOVE fails"), named.count("STOVE")) == (1, 1)


def test_only_the_worlds_of_the_papers_tables_say_that_a_model_fails(tmp_path: Path) -> None:
    found = read([saved(tmp_path, solid_result(scores={"mota": FAIL - 0.01}))])
    models = {"G-SWM": found.of("G-SWM", "obj3d")}
    assert "G-SWM" in labels(figures.solid_curves(found))
    assert "G-SWM fails" not in labels(figures.solid_curves(found))
    (strict,) = (line for line in figures.errors(found, "obj3d", models) if line.width < 1)
    assert list(strict.values) == [0.2, 0.3]  # the center error is 0.2 at the most


def test_every_model_has_a_curve_of_its_color_in_every_world(everything: Path) -> None:
    drawn = figures.error(read([everything]))
    assert drawn is not None
    assert [chart.title for chart in drawn.panels] == list(BALLS)
    for chart in drawn.panels:
        colors = {s.name: s.color for s in chart.series if s.name in MODELS}
        assert colors == {model: figures.COLORS[model] for model in MODELS}


def test_a_strict_error_beyond_the_chart_does_not_make_it_flat(tmp_path: Path) -> None:
    curves = {"center_error": [0.1, 0.2, 0.3], "strict_error": [0.2, 5.0, 9.0]}
    found = read([saved(tmp_path, of("STOVE", "two-layer", curves=curves))])
    lines = figures.errors(found, "two-layer", found.models("two-layer"))
    assert [list(line.values) for line in lines if line.values] == [
        [0.2, None, None],
        [0.1, 0.2, 0.3],
    ]


def test_balls_that_fly_away_leave_the_chart_through_its_roof(tmp_path: Path) -> None:
    curves = {"center_error": [0.5, 1.0, 20.0], "strict_error": [0.5, 1.0, 1.0]}
    found = read([saved(tmp_path, of("STOVE", "two-layer", curves=curves))])
    drawn = figures.error(found)
    assert drawn is not None
    (chart,) = drawn.panels
    assert chart.high == LIMIT
    (line,) = (s for s in chart.series if s.name == "STOVE")
    assert list(line.values) == curves["center_error"]


def test_ways_are_true_and_of_each_model_in_the_same_episode(everything: Path) -> None:
    named = labels(figures.ball_ways(read([everything])))
    titles = [f"{world} 0: {name}" for world in BALLS for name in ("true", *MODELS)]
    assert named == titles


def test_panels_of_ways_fill_the_row(tmp_path: Path, everything: Path) -> None:
    three = figures.ball_ways(read([everything]))
    examples = [ball_example(i) for i in range(3)]
    alone = figures.ball_ways(read([saved(tmp_path / "1", result(examples=examples))]))
    for drawn in (three, alone):
        assert drawn is not None
        assert drawn.width == pytest.approx(figures.WIDE)


def test_the_single_ball_has_the_futures_of_all_models(tmp_path: Path) -> None:
    rules = {"name": "gswm-5-4", "given": 5}
    example = ball_example() | {"given": 5, "futures": [ball_example()["true"][5:9]] * 100}
    kept = {"protocol": rules, "examples": [example], "scores": {"share_0": 0.5}}
    runs = [of(model, "single-ball", **kept) for model in MODELS]
    plain = result("single-ball-d", world="single-ball", **kept)
    found = read([saved(tmp_path, *runs, plain)])
    names = ("G-SWM", "G-SWM-D", *MODELS[1:])
    assert labels(figures.single_ball(found)) == [
        "true",
        *(f"{name}: 100 futures" for name in names),
    ]
    for name in names:
        assert row(tables(found)["futures"], name)["left"] == "50.0 %"


def test_one_model_by_two_protocols_is_in_the_tables_of_each(tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, by_slotformer(), solid_result())]))
    solid = row(made["obj3d"], "G-SWM")
    assert (solid["center error"], solid["strict error"], solid["MOTA"]) == (
        *("0.125", "0.250", "0.7500"),
    )
    assert (solid["PSNR"], solid["SSIM"]) == ("31.50", "0.900")
    hits = row(made["collisions"], "G-SWM")
    assert [hits[n] for n in ("precision", "recall", "F1", "frames late")] == [
        *("0.500", "0.250", "0.333", "–"),
    ]
    other = row(made["slotformer"], "G-SWM, here")
    assert (other["PSNR"], other["SSIM"]) == ("28.25", "0.800")
    assert len(made["slotformer"].rows) == 1 + len(SLOTFORMER)
    assert len(made["trainings"].rows) == 1
    assert len(made["evaluations"].rows) == 2


def test_one_protocol_alone_leaves_the_table_of_the_other_empty(tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, by_slotformer())]))
    assert row(made["obj3d"], "G-SWM")["center error"] == EMPTY
    assert row(made["slotformer"], "G-SWM, here")["PSNR"] == "28.25"
    assert figures.solid_curves(read([tmp_path])) is None


def test_another_protocol_or_split_is_in_neither_table(tmp_path: Path) -> None:
    other = solid_result(protocol={"name": "ocvp-5-25", "given": 5})
    val = solid_result(data={"world": "obj3d", "split": "val"})
    made = tables(read([saved(tmp_path, other, val)]))
    assert row(made["obj3d"], "G-SWM")["center error"] == EMPTY
    assert row(made["slotformer"], "G-SWM, here")["PSNR"] == EMPTY


def test_a_folder_of_scenes_is_the_world_they_are_of(tmp_path: Path) -> None:
    far = solid_result(data={"world": "obj3d:my/scenes", "split": "test"})
    made = tables(read([saved(tmp_path, far)]))
    assert row(made["obj3d"], "G-SWM")["PSNR"] == "31.50"


def test_rules_stand_beside_the_model_in_space(tmp_path: Path) -> None:
    stay = solid_result() | {"model": {"baseline": "stay"}, "examples": []}
    made = tables(read([saved(tmp_path, stay)]))
    assert row(made["obj3d"], "stationary")["center error"] == "0.125"
    assert row(made["obj3d"], "G-SWM")["center error"] == EMPTY


def test_two_rules_are_told_apart_by_dashes(tmp_path: Path) -> None:
    rules = [
        solid_result() | {"model": {"baseline": rule}, "examples": []}
        for rule in ("stay", "straight", "walls")
    ]
    balls = [
        result() | {"model": {"baseline": rule}, "examples": []}
        for rule in ("stay", "straight", "walls")
    ]
    found = read([saved(tmp_path, solid_result(), *rules, *balls)])
    for world, name in (("obj3d", "constant velocity"), ("two-layer", "no collisions")):
        lines = {s.name: s for s in figures.errors(found, world, {}) if s.values}
        assert {n: s.dash for n, s in lines.items()} == {"stationary": False, name: True}
    assert {"stationary", "constant velocity"} < set(labels(figures.solid_curves(found)))


def test_true_frames_are_above_imagined_ones_with_the_boxes_of_each(tmp_path: Path) -> None:
    sheet = filmstrips.solids(read([saved(tmp_path, solid_result())]), "obj3d")
    assert sheet is not None
    side, gap = 64 * filmstrips.SCALE, filmstrips.GAP
    right, low = sheet.shape[1] - gap, sheet.shape[0] - gap
    corner = side // 4  # of a frame, where there is no box
    for column in range(3):
        x = right - (3 - column) * (side + gap) + gap
        above, below = (low - n * (side + gap) + gap for n in (2, 1))
        assert sheet[above + corner, x + corner].tolist() == [200] * 3
        assert sheet[below + corner, x + corner].tolist() == [100] * 3
        box = (sheet[below : below + side, x + side // 4 + 4 : x + side // 2] != 100).any(axis=-1)
        assert box[side // 8 : side - side // 8].any() == (column == 0)


def test_scores_that_are_no_numbers_are_not_listed_with_weights() -> None:
    scores = {"center_error": None, "mota": 0.25, "motp": 0.5}
    assert listed(scores) == {"mota": 0.25}


def test_the_page_has_the_pictures_of_space(tmp_path: Path) -> None:
    given = saved(tmp_path / "in", solid_result(), by_slotformer())
    out, text = tmp_path / "out", tmp_path / "results.md"
    assert main(["report", str(given), "--out", str(out), "--markdown", str(text)]) == 0
    assert (out / "obj3d.png").is_file()
    assert (out / "obj3d-curves.png").is_file()
    assert "![obj3d](results/obj3d.png)" in text.read_text()
    assert "gswm eval obj3d --protocol slotformer-6-44" in text.read_text()


def test_a_file_is_measured_as_the_world_in_it(tmp_path: Path) -> None:
    """The default protocol of that world is used, regardless of the file's name."""
    data = {"world": "mine.hdf5", "of": "maze", "split": "test"}
    maze = maze_result("maze") | {"data": data}
    maze["model"]["world"] = "mine.hdf5"
    (kept,) = read([saved(tmp_path / "one", maze)]).of("G-SWM", "maze")
    assert kept.world == "mine.hdf5"
    maze["data"] = data | {"of": "two-layer"}
    assert not read([saved(tmp_path / "other", maze)]).of("G-SWM", "maze")


def test_what_was_tracked_in_a_file_is_not_drawn_again(tmp_path: Path) -> None:
    results = read([saved(tmp_path, result("two-layer", world="mine.hdf5"))])
    assert results.of("G-SWM", "two-layer")
    assert filmstrips.tracking(results) is None
