"""The report's table of abilities, times by slots, and trainings of models that lack one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_scalor
import tiny_stove
import torch
from measured import ball_example, labels, maze_result, of, row, rule_of, saved, solid_result
from tiny import video

from gswm.cli import main
from gswm.core.records import map_tensors
from gswm.models.registry import RECIPES
from gswm.report import figures, filmstrips
from gswm.report.abilities import BY_DESIGN, CRITERIA, FEW, GROWTH, MANY, NO_BACKGROUND
from gswm.report.cells import HAS, LACKS, NOTHING, UNMEASURED
from gswm.report.drawing import Dot
from gswm.report.paper import ABILITIES, MODELS
from gswm.report.results import model_of, read
from gswm.report.tables import tables
from gswm.report.writing import as_page, shown_tables


def benchmark(**milliseconds: dict[int, float]) -> dict[str, Any]:
    """Figures as `gswm bench train --json` writes them, by recipe and K."""
    steps = [
        {"recipe": name, "length": 10, "batch": 16, "objects": slots, "path": "plain", "ms": ms}
        for name, times in milliseconds.items()
        for slots, ms in times.items()
    ]
    return {"recipe": "some", "machine": {"device": "NVIDIA H200"}, "steps": steps}


def digits(model: str, share: float) -> dict[str, Any]:
    rules = {"name": "sqair-10-10", "given": 10}
    return of(model, "digits", protocol=rules, scores={"count_right": share, "mota": 0.8})


def trained(made: dict[str, Any], *errors: float) -> dict[str, Any]:
    """A result whose training was validated every 1,000 steps and minute."""
    curve = [[1000 * (i + 1), i + 1.0, error] for i, error in enumerate(errors)]
    made["model"]["about"] |= {"curve": curve}
    return made


@pytest.mark.parametrize(("share", "mark"), [(0.9, HAS), (0.899, LACKS)])
def test_an_ability_is_a_score_that_reaches_its_bound(
    share: float, mark: str, tmp_path: Path
) -> None:
    made = tables(read([saved(tmp_path, digits("SQAIR", share))]))["abilities"]
    found = row(made, "Discovery")
    assert found["SQAIR, here"] == f"{mark} {100 * share:.1f} %"
    assert (found["SQAIR, paper"], found["STOVE, paper"]) == (HAS, LACKS)
    assert found["SCALOR, here"] == UNMEASURED
    assert found["STOVE, here"] == f"{LACKS} {BY_DESIGN['Discovery', 'STOVE']}"
    assert "90.0 %" in found["criterion"]
    assert [line[0] for line in made.filled().rows] == ["Discovery"]


def test_an_error_must_be_below_that_of_a_simulator_without_collisions(tmp_path: Path) -> None:
    runs = [
        of("G-SWM", "interaction", scores={"strict_error": 0.25}),
        of("SILOT", "interaction", scores={"strict_error": 0.85, "center_error": 0.1}),
    ]
    alone = tables(read([saved(tmp_path / "alone", *runs)]))["abilities"]
    assert row(alone, "Interaction")["SILOT, here"] == UNMEASURED  # nothing to compare with
    beside = saved(tmp_path / "beside", *runs, rule_of("walls", "interaction", 0.8))
    found = row(tables(read([beside]))["abilities"], "Interaction")
    assert found["G-SWM, here"] == f"{HAS} 0.250 (0.800)"
    assert found["SILOT, here"] == f"{LACKS} 0.850 (0.800)"


def test_every_ability_of_the_paper_has_a_criterion() -> None:
    ours = {criterion.title.partition(":")[0] for criterion in CRITERIA}
    assert ABILITIES.keys() <= ours
    models = {frozenset(marks) for marks in ABILITIES.values()}
    assert models == {frozenset(MODELS) - {"G-SWM", "OP3"}}


def test_rows_that_the_paper_has_not_have_no_mark_of_it(tmp_path: Path) -> None:
    solid = solid_result(scores={"moved_along": 0.75, "reconstruction_gain": 5.0})
    made = tables(read([saved(tmp_path, solid)]))["abilities"]
    found = row(made, "Motion in 3D")
    assert (found["G-SWM, here"], found["SCALOR, paper"]) == (f"{HAS} 0.75", NOTHING)
    assert row(made, "Background")["G-SWM, here"] == f"{LACKS} 5.0"


def test_futures_and_corridors_are_abilities_too(tmp_path: Path) -> None:
    ball = {"protocol": {"name": "gswm-5-4", "given": 5}, "scores": {"on_mode": 0.5}}
    maze = maze_result("maze") | {"scores": {"in_corridor_10": 0.95}}
    made = tables(read([saved(tmp_path, of("STOVE", "single-ball", **ball), maze)]))["abilities"]
    assert row(made, "Uncertainty")["STOVE, here"] == f"{LACKS} 50.0 %"
    assert row(made, "Situated")["G-SWM, here"] == f"{HAS} 95.0 %"


def test_times_grow_with_slots(tmp_path: Path) -> None:
    times = benchmark(
        **{"interaction": {FEW: 10.0, 8: 12.0, MANY: 15.0}},
        **{"sqair-interaction": {FEW: 20.0, MANY: 20.0 * GROWTH}, "scalor-interaction": {FEW: 9.0}},
    )
    found = read([saved(tmp_path, times)])
    made = tables(found)
    ability = row(made["abilities"], "Scalability: time")
    assert ability["G-SWM, here"] == f"{HAS} 1.5 times"
    assert ability["SQAIR, here"] == f"{LACKS} {GROWTH:.1f} times"
    assert ability["SCALOR, here"] == UNMEASURED
    assert ability["SCALOR, paper"] == HAS
    slow = row(made["steps"], "sqair-interaction")
    assert (slow["model"], slow[f"K = {FEW}"], slow["K = 8"]) == ("SQAIR", "20.0", NOTHING)
    assert row(made["steps"], "scalor-interaction")[f"{MANY} over {FEW}"] == NOTHING
    assert not made["failures"].rows  # a time is no training
    assert {"abilities", "steps"} <= shown_tables(found).keys()


def test_times_of_two_settings_are_not_compared(tmp_path: Path) -> None:
    slow, fast = benchmark(interaction={FEW: 10.0}), benchmark(interaction={MANY: 10.0})
    fast["machine"]["device"] = "cpu"
    made = tables(read([saved(tmp_path, slow, fast)]))
    assert row(made["abilities"], "Scalability: time")["G-SWM, here"] == UNMEASURED
    assert len(made["steps"].rows) == 2


def test_a_broken_file_of_times_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = benchmark(interaction={FEW: 10.0})
    del broken["steps"][0]["ms"]
    assert main(["report", str(saved(tmp_path / "in", broken)), "--out", str(tmp_path / "x")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "of `gswm bench train --json`: steps[0] has no 'ms'" in line


def test_a_model_that_lacks_an_ability_has_its_training_and_the_world_where_it_works(
    tmp_path: Path,
) -> None:
    lost = of("SQAIR", "interaction", scores={"strict_error": 2.0, "mota": 0.2})
    runs = [
        trained(lost, 3.0, 2.25, 2.125, 2.5),
        trained(digits("SQAIR", 0.95), 4.0, 0.5),
        rule_of("walls", "interaction", 0.8),
    ]
    found = read([saved(tmp_path, *runs)])
    (line,) = tables(found)["failures"].rows
    assert line == (
        *("SQAIR", "Interaction", "interaction", f"{LACKS} strict error 2.000 (0.800)"),
        *("3", "2.25", "2.12", "digits: right number of objects 95.0 %"),
    )
    assert {"interaction fails", "digits"} == set(labels(figures.learning(found)))
    assert LACKS in as_page(found, {})


def test_a_training_above_the_roof_has_no_empty_chart(tmp_path: Path) -> None:
    found = read([saved(tmp_path, trained(digits("SQAIR", 0.95), 7.0, 4.5))])
    assert figures.learned(found, "SQAIR") is None
    assert figures.learned(
        read([saved(tmp_path, trained(digits("SQAIR", 0.95), 7.0, 3.5))]), "SQAIR"
    )


def test_a_failure_without_validations_or_other_worlds_says_so(tmp_path: Path) -> None:
    runs = of("SILOT", "interaction", scores={"strict_error": 2.0})
    made = tables(read([saved(tmp_path, runs, rule_of("walls", "interaction", 0.8))]))
    (line,) = made["failures"].rows
    assert line[-4:] == (NOTHING, NOTHING, NOTHING, "no measured criterion")


def of_masks(world: str, **scores: float) -> dict[str, Any]:
    """A result of OP3 in a 3D world."""
    made = solid_result(scores=scores, boxes_from="masks")
    other = of("OP3", world)
    return made | {name: other[name] for name in ("command", "model", "data")}


def test_fewer_objects_are_where_op3_works(tmp_path: Path) -> None:
    runs = [
        trained(of_masks("obj3d", moved_along=0.1, reconstruction_gain=2.0), 0.02, 0.01),
        trained(of_masks("obj3d-two", moved_along=0.2, reconstruction_gain=8.0), 0.01, 0.005),
    ]
    found = read([saved(tmp_path, *runs)])
    made = tables(found)
    lines = {line[1]: line for line in made["failures"].rows}
    assert lines.keys() == {"Background", "Motion in 3D"}
    assert {line[-1] for line in lines.values()} == {"obj3d-two: dB above the mean image 8.0"}
    assert row(made["obj3d"], "OP3, two objects")["motion along the true path"] == "0.20"
    assert row(made["obj3d"], "OP3")["motion along the true path"] == "0.10"
    assert "others" not in made
    drawn = figures.learning(found)
    assert drawn is not None
    assert [chart.y_label for chart in drawn.panels] == ["mean squared error"]


def test_models_that_imagine_the_same_solids_are_below_one_row_of_true_frames(
    tmp_path: Path,
) -> None:
    runs = solid_result(), of_masks("obj3d"), of_masks("obj3d-two")

    def height(number: int, world: str) -> int:
        folder = saved(tmp_path / str(number), *runs[:number])
        sheet = filmstrips.solids(read([folder]), world)
        assert sheet is not None
        return sheet.shape[0]

    strip = height(2, "obj3d") - height(1, "obj3d")
    assert height(3, "obj3d") == height(2, "obj3d")
    # True frames and OP3's, without G-SWM's.
    assert height(3, "obj3d-two") == height(2, "obj3d") - strip
    assert "OP3" in labels(figures.solid_curves(read([tmp_path / "2"])))


def test_frames_of_silot_are_beside_the_true_ones_and_those_of_gswm(tmp_path: Path) -> None:
    runs = [of(model, "two-layer") for model in ("G-SWM", "SILOT", "SCALOR")]
    found = read([saved(tmp_path / "in", *runs)])
    drawn = figures.rollouts(found)
    assert drawn is not None
    assert drawn.width == pytest.approx(figures.WIDE)
    named = [name for name in labels(drawn) if name]
    steps = [f"step {step}" for step in figures.STEPS_AHEAD]
    assert named[0] == "two-layer: true"
    assert [name for name in named if name in steps] == steps
    assert [name for name in named if name in MODELS] == ["G-SWM", "SILOT"]
    dots = [part for part in drawn.parts if isinstance(part, Dot)]
    known = [step for step in figures.STEPS_AHEAD if step <= len(ball_example()["futures"][0])]
    # Of two balls both are true, and one was imagined.
    assert len(dots) == 2 * (len(figures.GIVEN) + len(known)) + 2 * len(known)
    without = read([saved(tmp_path / "without", runs[0])])
    assert figures.rollouts(without) is None


def test_a_variant_for_a_cpu_counts_if_the_recipe_has_no_results(tmp_path: Path) -> None:
    small, full = digits("SQAIR", 0.94), digits("SQAIR", 0.85)
    small["model"]["recipe"] = "sqair-digits-cpu"
    shipped = tmp_path / "docs" / "results"
    shipped.parent.mkdir()
    alone = tables(read([saved(shipped, small)]))
    assert row(alone["abilities"], "Discovery")["SQAIR, here"] == f"{HAS} 94.0 %"
    assert row(alone["digits"], "SQAIR (sqair-digits-cpu)")["right number"] == "94.0 %"
    assert "others" not in alone
    both = tables(read([saved(shipped, small, full)]))
    assert row(both["abilities"], "Discovery")["SQAIR, here"] == f"{LACKS} 85.0 %"
    assert row(both["digits"], "SQAIR")["right number"] == "85.0 %"


def test_digits_have_a_table_and_tracked_boxes(tmp_path: Path) -> None:
    made = digits("SQAIR", 0.95)
    tracked = [part | {"frame": i} for i, part in enumerate(ball_example()["tracked"])]
    made["examples"] = [ball_example() | {"tracked": tracked}]
    found = read([saved(tmp_path, made)])
    cells = row(tables(found)["digits"], "SQAIR")
    assert (cells["right number"], cells["MOTA"]) == ("95.0 %", "0.8000")
    assert "others" not in tables(found)
    made = figures.figures(found)
    assert "digits" in made
    assert "tracking" not in made


@pytest.mark.parametrize(("title", "model"), BY_DESIGN)
def test_models_that_cannot_have_an_ability_are_built_without_it(title: str, model: str) -> None:
    configs = [make().model for name, make in RECIPES.items() if model_of(name) == model]
    assert configs
    if BY_DESIGN[title, model] == NO_BACKGROUND:
        assert not any(cfg.has_background for cfg in configs)


def test_stove_finds_as_many_objects_as_it_has_slots() -> None:
    assert (tiny_stove.build().infer(video(2, 4, tiny_stove.SIZE)).pres > 0.5).all()


def test_objects_of_scalor_do_not_see_the_background() -> None:
    model = tiny_scalor.lively(background=True)
    state = model.infer(video(1, 3)).state_at(2)
    other = replace(state, context=map_tensors(torch.ones_like, state.context))
    futures = [model.imagine_from(each, 3, sample=False) for each in (state, other)]
    assert torch.equal(futures[0].xy, futures[1].xy)
    assert not torch.equal(*(each.reconstruction for each in futures))
