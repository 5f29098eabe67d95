"""Commands replace files that gswm did not write only with --force."""

import json
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest
from test_importing import pictures
from training import small

import gswm
from gswm.cli import COMMANDS, main
from gswm.core.errors import UserError
from gswm.core.files import MARKER, check_folder, make_folder
from gswm.models.registry import build
from gswm.weights import files as weights

pytestmark = pytest.mark.usefixtures("small_trunk")
PRECIOUS = b"years of work"
WRITES = {"out", "json", "picture", "markdown"}
RESUMES = {"train", "sweep"}
"""Commands that go on in a folder of theirs, and have other rules."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_writes_can_be_forced(name: str) -> None:
    cls = COMMANDS[name].load()
    settings = {field.name for field in fields(cls)}
    assert ("force" in settings) == bool(settings & WRITES and name not in RESUMES)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights of a small model that nobody trained."""
    return saved(tmp_path / "model.safetensors")


def saved(path: Path, name: str = "single-ball") -> Path:
    """Weights of a small model, of a recipe with this name."""
    weights.save(path, build(one := replace(small(), name=name)), one)
    return path


COMMANDS_TO_FILES = {
    "export": ["export", "model.safetensors", "--out", "mine.safetensors"],
    "track": ["track", "film", "--model", "model.safetensors", "--out", "mine.csv"],
    "track by default": ["track", "film", "--model", "model.safetensors"],
    "picture": ["track", "maze", "--model", "model.safetensors", "--picture", "mine.png"],
    "show": ["data", "show", "maze", "--out", "mine.gif"],
    "make": ["data", "make", "maze", "--episodes", "1", "--out", "mine.hdf5"],
    "scenes": ["data", "scenes", "--episodes", "1", "--out", "mine.hdf5"],
    "compare": ["data", "compare", "--scenes", "no.hdf5", "--out", "mine.png"],
    "import": ["data", "import", "film", "--out", "mine.hdf5"],
    "look": ["data", "look", "film", "--out", "mine.png"],
    "look json": ["data", "look", "film", "--json", "mine.json"],
    "eval": ["eval", "model.safetensors", "--episodes", "1", "--json", "mine.json"],
    "eval labels": ["eval", "film", "--labels", "no", "--tracks", "no", "--json", "mine.json"],
    "bench": ["bench", "imagine", "--json", "mine.json"],
    "imagine": ["imagine", "model.safetensors", "--out", "mine"],
    "fit": ["fit", "film", "--out", "mine"],
    "demo": ["demo", "--out", "mine"],
    "report": ["report", "no.json", "--out", "mine"],
    "markdown": ["report", "no.json", "--markdown", "mine.md"],
    "figures": ["report", "no.json", "--markdown", "mine/mine.md"],
}
THERE = {
    "track by default": "states.csv",
    "imagine": "mine/states.csv",
    "fit": "mine/tracks.csv",
    "demo": "mine/index.html",
    "report": "mine/error.png",
    "figures": "mine/mine/error.png",
}
"""Files that would be replaced, where the command does not name them."""


@pytest.mark.parametrize("name", COMMANDS_TO_FILES)
def test_a_file_that_is_there_is_kept(
    name: str,
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "film")
    args = COMMANDS_TO_FILES[name]
    mine = Path(THERE.get(name, args[-1]))
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_bytes(PRECIOUS)
    before = sorted(tmp_path.rglob("*"))
    assert main(args) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f"gswm: {mine} exists; use --force to overwrite it")
    assert mine.read_bytes() == PRECIOUS
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["export", "show", "make", "imagine"])
def test_a_file_is_replaced_if_that_is_said(
    name: str, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = COMMANDS_TO_FILES[name]
    args = [*args, "--steps", "1", "--futures", "1", "--no-mp4"] if name == "imagine" else args
    mine = Path(THERE.get(name, args[args.index("--out") + 1]))
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_bytes(PRECIOUS)
    assert main([*args, "--force"]) == 0
    assert mine.read_bytes() != PRECIOUS


def test_a_folder_that_gswm_made_is_written_again(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = [*COMMANDS_TO_FILES["imagine"], "--steps", "1", "--futures", "1", "--no-mp4"]
    for _ in range(2):
        assert main(args) == 0
    assert (tmp_path / "mine" / MARKER).is_file()


def test_an_imagination_leaves_nothing_of_an_earlier_one_and_lists_its_own_files(
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    args = [*COMMANDS_TO_FILES["imagine"], "--steps", "1", "--futures", "1"]
    assert main(args) == 0
    (tmp_path / "mine" / "thesis.tex").write_bytes(PRECIOUS)
    capsys.readouterr()
    assert main([*args, "--no-mp4"]) == 0
    assert "mine: imagined.gif, imagined.png, states.csv\n" in capsys.readouterr().out
    there = {".gswm", "imagined.gif", "imagined.png", "states.csv", "thesis.tex"}
    assert {file.name for file in (tmp_path / "mine").iterdir()} == there


def test_a_film_in_a_folder_of_others_stays(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    film = tmp_path / "mine" / "imagined.mp4"
    film.parent.mkdir()
    film.write_bytes(PRECIOUS)
    args = [*COMMANDS_TO_FILES["imagine"], "--steps", "1", "--futures", "1", "--no-mp4"]
    assert main([*args, "--force"]) == 0
    assert film.read_bytes() == PRECIOUS


def test_a_folder_of_others_is_not_marked_and_stays_theirs(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_bytes(PRECIOUS)
    make_folder(tmp_path, "imagine")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    check_folder(tmp_path, ["states.csv"])
    with pytest.raises(UserError, match=r"thesis.tex exists; use --force"):
        check_folder(tmp_path, ["*.tex"])
    check_folder(tmp_path, ["*.tex"], force=True)


def test_a_fit_in_python_replaces_no_files_of_others(tmp_path: Path) -> None:
    pictures(tmp_path / "film")
    (tmp_path / "index.html").write_bytes(PRECIOUS)
    with pytest.raises(UserError, match=r"index\.html exists; use --force"):
        gswm.fit(tmp_path / "film", out=tmp_path)
    assert (tmp_path / "index.html").read_bytes() == PRECIOUS


def test_what_is_no_file_is_never_replaced(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(pipe := tmp_path / "mine.safetensors")
    assert main(["export", str(model), "--out", str(pipe), "--force"]) == 2
    assert "it is not a regular file" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_a_sweep_replaces_only_what_a_sweep_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gswm.commands.sweep import check_sweep

    path = tmp_path / "sweep.json"
    check_sweep(path)
    for text in (json.dumps([{"recipe": "maze"}]), "[]"):
        path.write_text(text)
        check_sweep(path)
    path.write_text(json.dumps({"angle": 3}))
    assert main(["sweep", "maze", "--out", str(tmp_path)]) == 2
    assert "was not written by a sweep" in capsys.readouterr().err
    assert json.loads(path.read_text()) == {"angle": 3}


# -- where weights of others are exported to


@pytest.mark.parametrize(
    "name", ["/abs", "../up", "a/b", "..", ".", ".hidden", "", "a\nb", "my film"]
)
def test_the_name_of_a_recipe_is_no_path(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path / "a" / "run" / "best.safetensors", name).parent
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "which cannot be a file name: use --out" in line
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["export", str(run), "--out", str(tmp_path / "mine.safetensors")]) == 0


def test_a_run_is_exported_under_the_name_of_its_recipe(tmp_path: Path) -> None:
    saved(tmp_path / "best.safetensors", "ball-2.b_1")
    assert main(["export", str(tmp_path)]) == 0
    assert (tmp_path / "ball-2.b_1.safetensors").is_file()
