"""The report's table of results that no other table shows."""

from pathlib import Path
from typing import Any

import pytest
from measured import by_slotformer, maze_result, result, saved, solid_result

from gswm.cli import main
from gswm.report.cells import EMPTY
from gswm.report.others import shown_elsewhere
from gswm.report.results import ResultFile, Results, read
from gswm.report.tables import tables

DOCS = Path(__file__).parents[1] / "docs"
OWN = {"world": "mine.hdf5", "of": "video", "split": "val"}


def own(recipe: str = "two-layer") -> dict[str, Any]:
    """A result on a user's own videos, with pixel scores only."""
    rules = {"name": "slotformer-6-44", "given": 6}
    scores = {"objects": 2.5, "psnr": 27.125, "ssim": 0.875, "lpips": None}
    return result(recipe, world="mine.hdf5", data=OWN, protocol=rules, scores=scores)


@pytest.mark.parametrize("recipe", ["two-layer", "obj3d"])
def test_ones_own_videos_have_a_row_of_their_own_and_no_other(recipe: str, tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, own(recipe))]))
    said = "PSNR 27.12, SSIM 0.875, objects found 2.50"
    assert made["others"].rows == (("G-SWM", recipe, "mine.hdf5", "slotformer-6-44", "200", said),)
    assert made["slotformer"].rows[0] == ("G-SWM, here", EMPTY, "")


def test_another_world_protocol_or_split_and_smaller_evaluations_are_listed(tmp_path: Path) -> None:
    runs = [
        result(),
        result(data={"world": "interaction", "split": "test"}),
        result(data={"world": "two-layer", "split": "val"}),
        result(protocol={"name": "ocvp-5-25", "given": 5}, scores={"psnr": None}),
        result(episodes=4, scores={"center_error": 9.0}),
        result() | {"model": {"baseline": "stay"}, "data": {"world": "maze", "split": "test"}},
        maze_result("maze-no-mu") | {"data": {"world": "obj3d", "split": "test"}},
    ]
    same = "center error 0.250, strict error 0.500, MOTA 0.9900"
    assert tables(read([saved(tmp_path, *runs)]))["others"].rows == (
        ("G-SWM", "two-layer", "interaction", "gswm-10-90", "200", same),
        ("G-SWM", "two-layer", "two-layer", "gswm-10-90, val", "200", same),
        ("G-SWM", "two-layer", "two-layer", "ocvp-5-25", "200", "–"),
        ("G-SWM", "two-layer", "two-layer", "gswm-10-90", "n = 4", "center error 9.000"),
        ("stationary", "–", "maze", "gswm-10-90", "200", same),
        ("G-SWM, without MU", "maze-no-mu", "obj3d", "gswm-maze-5", "200", "–"),
    )


def test_sampled_given_frames_are_told_of_what_no_other_table_shows(tmp_path: Path) -> None:
    rules = {"name": "gswm-maze-5", "given": 5, "posterior": "sample"}
    made = tables(read([saved(tmp_path, maze_result("maze") | {"protocol": rules})]))
    assert made["others"].rows[0][3] == "gswm-maze-5, given sampled"
    assert made["corridor"].rows[0][1] == EMPTY


def test_there_is_no_table_where_all_is_shown(tmp_path: Path) -> None:
    stay = result("obj3d") | {"model": {"baseline": "stay"}}
    stay["protocol"] = {"name": "gswm-3d-10-90", "given": 10}
    runs = result(), result(seed=1), result(), maze_result("maze"), solid_result(), by_slotformer()
    assert "others" not in tables(read([saved(tmp_path, *runs, stay)]))
    shipped = tables(read([DOCS / "results"]))["others"]
    assert [row[1] for row in shipped.rows] == ["clips"]  # the paper has no such world


def test_what_the_tables_show_is_what_they_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the shipped results: this test must know every new table."""
    results, taken = read([DOCS / "results"]), []
    known = {m.command for m in shown_elsewhere(results)}
    find = Results.of

    def seen(self: Results, *which: Any, **how: Any) -> list[ResultFile]:
        taken.extend(found := find(self, *which, **how))
        return found

    monkeypatch.setattr("gswm.report.tables.others", lambda _: {})
    monkeypatch.setattr(Results, "of", seen)
    tables(results)
    assert {m.command for m in taken} == known


def test_the_page_and_the_text_have_it(tmp_path: Path) -> None:
    given, out, text = saved(tmp_path / "in", own()), tmp_path / "out", tmp_path / "a.md"
    assert main(["report", str(given), "--out", str(out), "--markdown", str(text)]) == 0
    for file in (out / "index.html", text):
        assert "Other results" in file.read_text()
        assert "PSNR 27.12, SSIM 0.875" in file.read_text()
