"""`gswm report`: tables, figures and a self-contained page from results."""

import re
import statistics
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from measured import ball_example, maze_result, result, row, saved, solid_result, still
from PIL import Image

import gswm
from gswm.cli import main
from gswm.eval.stills import as_text
from gswm.report import figures, trajectories
from gswm.report.cells import EMPTY, UNMEASURED, Table
from gswm.report.drawing import Dot, Drawing, Line
from gswm.report.page import table_html
from gswm.report.paper import BALLS, CENTER_ERROR, FAILS, MOTA, TABULATED
from gswm.report.results import read
from gswm.report.tables import tables
from gswm.report.writing import as_page, shown_tables
from gswm.viz import formats


def test_ours_stands_beside_the_papers(tmp_path: Path) -> None:
    scalor = result("scalor-occlusion", "Scalor", world="occlusion")
    made = tables(read([saved(tmp_path, result(), scalor)]))
    two = row(made["error"], "two-layer")
    assert (two["G-SWM, paper"], two["G-SWM, here"]) == ("0.212 ± 0.007", "0.250")
    assert two["STOVE, paper"] == "fails"
    assert row(made["error"], "occlusion")["SCALOR, here"] == "0.250"
    assert row(made["error"], "occlusion")["G-SWM, here"] == EMPTY
    assert row(made["mota"], "two-layer")["G-SWM, here"] == "0.9900"
    assert row(made["strict"], "two-layer")["strict error"] == "0.500"
    assert row(made["strict"], "interaction")["center error"] == EMPTY


def test_the_papers_tables_have_every_world() -> None:
    for said in (CENTER_ERROR, MOTA):
        assert said.keys() | FAILS == {(world, model) for world in BALLS for model in TABULATED}
        assert not said.keys() & FAILS


def test_seeds_are_a_mean_and_a_spread(tmp_path: Path) -> None:
    values = [0.2, 0.25, 0.4]
    runs = [result(seed=i, scores={"center_error": v}) for i, v in enumerate(values)]
    made = tables(read([saved(tmp_path, *runs)]))
    expected = f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"
    assert row(made["error"], "two-layer")["G-SWM, here"] == f"{expected} (3 seeds)"
    two = row(made["strict"], "two-layer")
    assert (two["model"], two["center error"]) == ("G-SWM (3 seeds)", expected)
    assert len(made["trainings"].rows) == 3


def test_weights_tell_their_seed_whatever_their_file_is_called(tmp_path: Path) -> None:
    """Both for weights of a run, and for weights built from a recipe with a seed."""
    recipe, runs = gswm.recipe("single-ball"), []
    for seed, about in ((0, {"seed": 0}), (1, {"seed": 1}), (2, {})):
        file = tmp_path / f"ball-{seed}.safetensors"
        gswm.save(file, gswm.build(recipe), replace(recipe, seed=seed), about=about)
        out = tmp_path / "in" / f"{seed}.json"
        args = ["eval", str(file), "--episodes", "1", "--split", "test", "--json", str(out)]
        assert main(args) == 0
        runs.append(out)
    found = read([tmp_path / "in"]).of("G-SWM", "single-ball")
    assert [m.trained_seed for m in found] == [0, 1, 2]
    table = tables(read([tmp_path / "in"]))["futures"]
    assert table.rows[0][0] == "G-SWM (3 seeds)"


def test_of_one_training_the_larger_evaluation_counts(tmp_path: Path) -> None:
    small = result(scores={"center_error": 9.0}, episodes=4)
    made = tables(read([saved(tmp_path, small, result(), small)]))
    assert row(made["error"], "two-layer")["G-SWM, here"] == "0.250"


def test_a_model_in_another_world_is_not_in_the_tables(tmp_path: Path) -> None:
    other = result(data={"world": "interaction", "split": "test"})
    val = result(data={"world": "two-layer", "split": "val"})
    made = tables(read([saved(tmp_path, other, val)]))
    for world in BALLS:
        assert row(made["error"], world)["G-SWM, here"] == EMPTY
    assert len(made["evaluations"].rows) == 2


def test_every_number_has_its_command_commit_seed_and_minutes(tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, result(seed=5) | {"seed": 7})]))
    (training,), (evaluation,) = made["trainings"].rows, made["evaluations"].rows
    assert training[1:] == (
        *("two-layer", "9,000", "5", "NVIDIA H200", "4.2", "abcdef0", "`gswm train two-layer`"),
        "one",
    )
    assert evaluation == (
        "`gswm eval two-layer`",
        "two-layer",
        "gswm-10-90",
        "200",
        "7",
        "cpu",
        "0123456",
    )


def test_a_short_table_has_what_was_measured_and_the_papers_numbers_of_it(tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, result())]))
    short = made["error"].filled()
    assert short.head == ("", "G-SWM, paper", "G-SWM, here", "SCALOR, paper", "STOVE, paper")
    assert short.rows == (("two-layer", "0.212 ± 0.007", "0.250", "1.012 ± 0.021", "fails"),)
    assert [r[0] for r in made["strict"].filled().rows] == ["two-layer"]
    assert made["corridor"].filled().rows == ()


def test_rules_are_lines_to_read_by(tmp_path: Path) -> None:
    stay = result("two-layer") | {"model": {"baseline": "stay"}, "examples": []}
    made = tables(read([saved(tmp_path, stay)]))
    assert row(made["rules"], "two-layer")["stationary objects"] == "0.250"
    assert row(made["rules"], "occlusion")["stationary objects"] == UNMEASURED
    assert made["trainings"].rows == ()
    drawn = figures.error(read([tmp_path]))
    assert drawn is not None
    (chart,) = drawn.panels  # nothing was measured in the other worlds
    assert chart.title == "two-layer"
    assert [s.name for s in chart.series if s.values] == ["stationary"]


def test_a_score_of_some_episodes_says_of_how_many_and_is_gray(tmp_path: Path) -> None:
    few = read([saved(tmp_path / "few", result(episodes=4))])
    assert row(tables(few)["error"], "two-layer")["G-SWM, here"] == "0.250, n = 4"
    page = as_page(few, {})
    assert "<td class=partial>0.250, n = 4</td>" in page
    whole = as_page(read([saved(tmp_path / "whole", result())]), {})
    assert "<td class=ours>0.250</td>" in whole
    assert "class=partial" not in whole


def test_a_model_that_fails_is_styled_so(tmp_path: Path) -> None:
    lost = {"center_error": 1.688, "mota": 0.2}
    page = as_page(read([saved(tmp_path, result(scores=lost))]), {})
    assert "<td class=fails>fails: 1.688</td>" in page


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    found = read([saved(tmp_path, result())])
    titles = [table.title for table in shown_tables(found).values()]
    assert any("Center error" in title for title in titles)
    assert not any(word in title for word in ("Maze", "3D", "Single") for title in titles)
    assert EMPTY not in as_page(found, {})
    assert "occlusion" not in as_page(found, {})


@pytest.mark.parametrize("recipe", ["interaction-cpu", "interaction"])
def test_ones_own_run_is_first_with_pictures(recipe: str, tmp_path: Path) -> None:
    own = result(recipe, world="interaction", episodes=4)
    own["model"]["file"] = "best.safetensors"
    shipped = result("interaction", scores={"center_error": 0.125})
    found = read([saved(tmp_path, shipped, own)])
    assert next(iter(shown_tables(found))) == "own"
    (line,) = tables(found)["own"].rows
    assert line[1:5] == (recipe, "interaction", "gswm-10-90", "n = 4")
    assert "others" not in tables(found)
    made = figures.figures(found)
    page = as_page(found, made)
    assert "<svg" in page[page.index("Your results") : page.index("Center error, summed")]
    assert row(tables(found)["error"], "interaction")["G-SWM, here"] == "0.125"


def test_one_s_own_run_of_a_recipe_of_the_paper_is_beside_the_paper(tmp_path: Path) -> None:
    own = result("interaction")
    own["model"]["file"] = "best.safetensors"
    made = tables(read([saved(tmp_path, own)]))
    assert row(made["error"], "interaction")["G-SWM, here"] == "0.250"
    assert row(made["gaps"], "interaction")["G-SWM"] == "+3 %"


def test_shipped_results_are_not_one_s_own(tmp_path: Path) -> None:
    assert "own" not in tables(read([Path(__file__).parents[1] / "docs" / "results"]))
    few = tables(read([saved(tmp_path, result("interaction", episodes=4))]))
    assert "own" not in few
    assert row(few["gaps"], "interaction")["G-SWM"] == "+3 %, n = 4"


def test_nothing_calls_a_cpu_a_gpu(tmp_path: Path) -> None:
    found = read([saved(tmp_path, result())])
    assert "GPU minutes" not in as_page(found, figures.figures(found))


def test_mazes_say_how_many_agents_were_found_and_there_are(tmp_path: Path) -> None:
    scores = {"objects": 3.328, "agents": 3.47}
    made = tables(read([saved(tmp_path, maze_result("maze") | {"scores": scores})]))["corridor"]
    found = row(made, "G-SWM")
    assert (found["agents found"], found["true agents"]) == ("3.33", "3.47")


def test_trainings_are_called_as_in_the_other_tables(tmp_path: Path) -> None:
    recipes = {
        **{"single-ball": "G-SWM", "single-ball-d": "G-SWM-D", "maze": "G-SWM"},
        **{"maze-no-mu": "G-SWM, without MU", "maze-no-sa": "G-SWM, without SA", "own": "G-SWM"},
    }
    runs = [*map(result, recipes), result("scalor-two-layer", "Scalor")]
    made = tables(read([saved(tmp_path, *runs)]))["trainings"]
    named = {line[1]: line[0] for line in made.rows}
    assert named == recipes | {"scalor-two-layer": "SCALOR"}


def test_the_papers_error_is_a_dashed_line_of_the_worlds_color(tmp_path: Path) -> None:
    curve = {"curve": [[1000, 1.0, 0.8], [2000, 2.0, 0.212]]}
    runs = [result(), result("obj3d")]
    for each in runs:
        each["model"]["about"] |= curve
    drawn = figures.learning(read([saved(tmp_path, *runs)]))
    assert drawn is not None
    (chart,) = drawn.panels
    (said,) = (line for line in chart.series if line.dash)
    assert said.color == figures.COLORS["two-layer"]
    assert (tuple(said.places), tuple(said.values)) == ((1.0, 2.0), (0.212, 0.212))


def test_one_result_is_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, said in ((1, "1 result: "), (2, "2 results: ")):
        given = saved(tmp_path / str(number), *[result()] * number)
        assert main(["report", str(given), "--out", str(tmp_path / "out")]) == 0
        assert capsys.readouterr().out.startswith(said)


def test_mazes_say_how_long_they_were_trained(tmp_path: Path) -> None:
    made = tables(read([saved(tmp_path, maze_result("maze"))]))["corridor"]
    assert row(made, "G-SWM")["pace"] == "0.90"
    assert row(made, "G-SWM")["steps trained"] == "9,000"
    assert row(made, "without MU")["after 10"] == EMPTY
    assert row(made, "without MU")["steps trained"] == ""


def test_a_trainings_validations_are_a_line_over_its_minutes(tmp_path: Path) -> None:
    trained = result()
    trained["model"]["about"] |= {"curve": [[1000, 1.0, 0.8], [2000, 2.0, 0.4], [4000, 4.0, 0.2]]}
    results = read([saved(tmp_path / "with", trained)])
    drawn = figures.learning(results)
    assert drawn is not None
    (line,) = (s for s in drawn.panels[0].series if s.name)
    assert (line.places, line.values) == ((1.0, 2.0, 4.0), (0.8, 0.4, 0.2))
    assert figures.learning(read([saved(tmp_path / "without", result())])) is None


class Page(HTMLParser):
    """The resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "data")]


def test_the_page_needs_no_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mazes = [maze_result("maze"), maze_result("maze-no-sa")]
    given = saved(tmp_path / "in", result(), *mazes)
    out, text = tmp_path / "out", tmp_path / "text" / "results.md"
    assert main(["report", str(given), "--out", str(out), "--markdown", str(text)]) == 0
    names = ["corridor.png", "error.png", "index.html", "maze.png", "tracking.png", "ways.png"]
    assert sorted(file.name for file in out.iterdir()) == names
    source = (out / "index.html").read_text()
    page = Page()
    page.feed(source)
    assert all(load.startswith("data:") for load in page.loads)
    assert len(page.loads) == 1
    assert "svg" in page.tags
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert set(re.findall(r"https?://[\w.]+", source)) == {"http://www.w3.org"}
    assert set(re.findall(r"url\(.", source)) <= {"url(#"}
    assert "prefers-color-scheme" in source
    shown = re.findall(r"\]\((.+?)\)", text.read_text())
    assert sorted(shown) == [f"results/{name}" for name in names if name.endswith("png")]
    for name in shown:
        with Image.open(text.parent / name) as picture:
            assert picture.width > 300
    assert "0.250" in source
    assert str(out / "index.html") in capsys.readouterr().out


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    given = saved(tmp_path / "in", result(), maze_result("maze"))
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        assert main(["report", str(given), "--out", str(out)]) == 0
    for file in outs[0].iterdir():
        assert file.read_bytes() == (outs[1] / file.name).read_bytes()


@pytest.mark.parametrize("name", ["index.html", "README.md", "empty.md", "about.md"])
def test_what_no_report_wrote_is_not_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = saved(tmp_path / "in", result())
    mine = tmp_path / name
    text = {"empty.md": "", "about.md": "Written by `gswm report`, it says.\n\nIt is not.\n"}
    out, other = tmp_path if name == "index.html" else tmp_path / "out", tmp_path / "other.md"
    args = ["report", str(given), "--out", str(out)]
    args += ["--markdown", str(other if name == "index.html" else mine)]
    mine.write_bytes(text.get(name, "My own: caf\u00e9\n").encode("latin-1"))
    before = mine.read_bytes()
    assert main(args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{mine} exists; use --force to overwrite it" in line
    assert mine.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, "in"])


def test_what_a_report_wrote_is_replaced(tmp_path: Path) -> None:
    given = saved(tmp_path / "in", result())
    args = ["report", str(given), "--out", str(tmp_path), "--markdown", str(tmp_path / "a.md")]
    for _ in range(2):
        assert main(args) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file or folder"),
        ("{", "is not a result of `gswm eval --json`"),
        ("[1]", "is not a result of `gswm eval --json`: it is not an object"),
        ('{"scores": {}}', "it has no 'model'"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    assert main(["report", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scores": {"mota": "0.9"}}, "scores.mota is '0.9'"),
        ({"curves": {"mota": 1}}, "curves.mota is no list"),
        ({"model": "GSWM"}, "model is no object"),
        ({"seed": True}, "seed is True"),
        ({"examples": [{}]}, "examples[0] has no 'episode'"),
        ({"examples": [ball_example() | {"true": [[[0.5]]]}]}, "true[0][0] has 1 values"),
        ({"examples": [ball_example() | {"sizes": [0.25]}]}, "different numbers of objects"),
        ({"examples": [ball_example() | {"futures": []}]}, "needs given frames and futures"),
        ({"examples": [ball_example(10**6)]}, "examples[0] is of episode 1000000 of 200"),
        ({"examples": [ball_example() | {"colors": ["x", "y"]}]}, "has unknown colors"),
    ],
)
def test_a_changed_result_is_refused_in_one_line(
    changed: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = saved(tmp_path / "in", result() | changed)
    assert main(["report", str(given), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a result of `gswm eval --json`" in line
    assert said in line


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"true": "not a picture"}, "stills.true cannot be read: the PNG is damaged"),
        ({"imagined": still(100)[:60]}, "stills.imagined cannot be read: the PNG is damaged"),
        ({"true": as_text(torch.zeros(1, 3, 8, 12).byte())}, "12 x 8 pixels"),
        ({"boxes": []}, "stills.imagined has 3 frames and boxes of 0 for 3 steps"),
    ],
)
def test_damaged_pictures_of_a_result_are_one_line(
    changed: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = solid_result()
    held["examples"][0]["stills"] |= changed
    given = saved(tmp_path / "in", held)
    assert main(["report", str(given), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "out").exists()


def test_long_cells_of_a_page_wrap_but_commands_do_not() -> None:
    long = "words that fill more than a line of a narrow column"
    rows = (("a", long, f"`{long}`"), ("b", "few", "c"))
    page = table_html(Table("t", "", ("", "scores", "command"), rows))
    assert "<th class=long>scores</th>" in page
    assert f"<td class=long>{long}</td>" in page
    assert "<td>few</td>" in page
    assert "<th>command</th>" in page
    assert f"<td class=words><code>{long}</code></td>" in page


@pytest.mark.parametrize("name", ["recipe.json", "fit.json"])
def test_the_folder_of_a_run_is_told_from_a_folder_of_results(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run" / name).write_text("{}")
    path = str(tmp_path / "my run")
    assert main(["report", path, "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"`gswm eval '{path}' --json result.json`" in line
    assert not (tmp_path / "out").exists()


def test_outside_a_clone_the_results_are_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "specify results of `gswm eval --json`" in line
    assert not list(tmp_path.iterdir())


def test_a_folder_without_results_and_a_text_of_another_kind_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "there are no results" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--markdown", str(tmp_path / "x.html")]) == 2
    assert "must end in .md" in capsys.readouterr().err


def test_an_object_that_was_not_found_has_no_way() -> None:
    example = ball_example()
    drawing = trajectories.ways(example, example["futures"][0], "")
    rings = [part for part in drawing.parts if isinstance(part, Dot) and part.width]
    assert len(rings) == 1
    both = trajectories.ways(example, example["true"][10:], "")
    assert len([part for part in both.parts if isinstance(part, Dot) and part.width]) == 2


def test_a_way_goes_through_its_places() -> None:
    example = ball_example()
    drawing = trajectories.ways(example, example["true"][10:], "", side=100)
    lines = [part for part in drawing.parts if isinstance(part, Line) and not part.fill]
    given, ahead = lines[0], lines[1]
    head = drawing.height - 100
    expected = [(100 * x, head + 100 * y) for (x, y), _ in example["true"]]
    assert np.allclose(given.points, expected[:10])
    assert np.allclose(ahead.points, expected[9:])


def test_objects_of_one_color_are_told_apart() -> None:
    made = trajectories.tints(["#0000ff", "#0000ff", "#ff0000", "#0000ff"])
    assert len(set(made)) == 4
    assert all(int(a[1:3], 16) < int(b[1:3], 16) for a, b in ((made[0], made[1]), made[1::2]))


def test_walls_are_where_no_corridor_is() -> None:
    example = maze_result("maze")["examples"][0]
    drawing = trajectories.maze(example, example["futures"][0], "", side=100)
    assert isinstance(drawing, Drawing)
    picture = drawing.picture()
    head = 2 * (drawing.height - 100)
    wall = picture[round(head) + 150, 50].tolist()
    floor = picture[round(head) + 150, 150].tolist()
    assert wall == list(bytes.fromhex(trajectories.WALL[1:]))
    assert floor == list(bytes.fromhex(trajectories.DARK[1:]))


DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.slow
def test_the_results_that_ship_are_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is; its figures are drawn and not written, as PNGs take long to compress."""
    monkeypatch.setattr(formats, "save_picture", lambda *_: None)
    out, text = tmp_path / "out", tmp_path / "results.md"
    given = ["report", str(DOCS / "results"), "--out", str(out), "--markdown", str(text)]
    assert main(given) == 0
    assert text.read_text() == (DOCS / "results.md").read_text(), "run `make results`"
    shown = re.findall(r"\]\((.+?)\)", text.read_text())
    assert all((DOCS / name).is_file() for name in shown)
    assert {Path(name).name for name in shown} == {f.name for f in (DOCS / "results").glob("*.png")}


def test_the_results_that_ship_are_small() -> None:
    files = list((DOCS / "results").glob("*.json"))
    assert files
    assert all(file.stat().st_size < 320_000 for file in files)


def test_a_variant_for_a_cpu_is_drawn_once(tmp_path: Path) -> None:
    """In the figure of its world, unless the recipe itself was measured there."""
    small = result("sqair-interaction-cpu", "Sqair", world="interaction")
    assert {"ways", "others"} & figures.figures(read([saved(tmp_path / "a", small)])).keys() == {
        "ways"
    }
    full = result("sqair-interaction", "Sqair", world="interaction")
    both = figures.figures(read([saved(tmp_path / "b", small, full)]))
    assert {"ways", "others"} <= both.keys()
