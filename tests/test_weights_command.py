"""Shipped weights: any changed byte is noticed, and `gswm weights` lists all of them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import SIZES

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.settings import to_dict
from gswm.models.registry import build, recipe
from gswm.train.folder import RunFolder
from gswm.train.loop import begin
from gswm.weights import files as weights
from gswm.weights import finding

NAMES = ("single-ball", "single-ball-again", "single-ball-third")


def write_old(file: Path) -> None:
    """A file of weights as they were before: with no checksum in its header."""
    small = recipe("single-ball")
    small = replace(small, model=replace(small.model, sizes=SIZES))
    torch.manual_seed(0)
    weights.save(file, build(small), small)
    scores = {"on_mode": 0.5, "share_0": 0.25, "objects": 1.0}
    about = {"step": 12345, "minutes": 123.4, "seed": 3, "commit": "abcdef0", "test": scores}
    header = {"format": weights.FORMAT, "recipe": json.dumps(to_dict(small))}
    save_file(load_file(file), file, header | {"about": json.dumps(about)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files that ship."""
    folder = tmp_path / "weights"
    folder.mkdir()
    lines = []
    for name in NAMES:
        write_old(file := folder / f"{name}.safetensors")
        lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    (folder / "checksums.txt").write_text("".join(lines))
    monkeypatch.setattr(finding, "SHIPPED", folder)
    return folder


def damage(file: Path, at: int = -100) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_damaged_weights_that_ship_are_refused_by_name_and_by_file(folder: Path) -> None:
    file = folder / "single-ball.safetensors"
    weights.load("single-ball")
    damage(file)
    for name in ("single-ball", file):
        with pytest.raises(UserError, match=r"single-ball\.safetensors is damaged: .* shipped"):
            weights.load(name)
    weights.load("single-ball-again")


def test_a_file_elsewhere_is_not_among_those_that_ship(folder: Path, tmp_path: Path) -> None:
    write_old(tmp_path / "single-ball.safetensors")
    damage(tmp_path / "single-ball.safetensors")
    weights.load(tmp_path / "single-ball.safetensors")


def test_eval_of_damaged_weights_is_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / "single-ball.safetensors")
    out = tmp_path / "out.json"
    assert main(["eval", "single-ball", "--episodes", "1", "--json", str(out)]) == 2
    said = capsys.readouterr()
    assert "is damaged" in said.err
    assert len(said.err.splitlines()) == 1
    assert not out.exists()


def test_training_does_not_begin_with_damaged_weights(folder: Path, tmp_path: Path) -> None:
    damage(folder / "single-ball.safetensors")
    chosen = weights.read_header(folder / "single-ball.safetensors")["recipe"]
    chosen = replace(chosen, train=replace(chosen.train, start="single-ball"))
    with pytest.raises(UserError, match="is damaged"):
        begin(build(chosen), chosen, RunFolder(tmp_path / "run"))


def test_a_damaged_header_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "single-ball.safetensors"
    file.write_bytes(file.read_bytes().replace(b'{\\"step\\"', b'}\\"step\\"'))
    assert main(["eval", "single-ball", "--episodes", "1"]) == 2
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert len(said.splitlines()) == 1


def test_without_checksums_nothing_that_ships_is_loaded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "checksums.txt").unlink()
    with pytest.raises(UserError, match=r"cannot read .*checksums\.txt"):
        weights.load("single-ball")
    assert main(["weights"]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert "checksums.txt, which is needed to verify weights" in said.err


def test_a_file_that_the_checksums_do_not_name_is_refused(folder: Path) -> None:
    write_old(folder / "new.safetensors")
    with pytest.raises(UserError, match=r"new\.safetensors is not listed in checksums\.txt"):
        weights.load("new")


def test_all_that_ship_are_listed_and_the_damaged_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / "single-ball.safetensors")
    (folder / "single-ball-third.safetensors").unlink()
    write_old(folder / "zzz.safetensors")
    assert main(["weights"]) == 2
    said = capsys.readouterr()
    rows = {line.split()[0]: line for line in said.out.splitlines()[1:]}
    assert list(rows) == [*NAMES, "zzz"]
    assert rows["single-ball"].endswith("DAMAGED")
    assert rows["single-ball-third"].endswith("MISSING")
    assert rows["zzz"].endswith("UNLISTED")
    assert "on mode 0.500" in rows["single-ball-again"]
    assert len(said.err.splitlines()) == 1
    assert "3 of 4 files" in said.err
    assert "single-ball damaged, single-ball-third missing, zzz unlisted" in said.err


@pytest.mark.parametrize("columns", [80, 200])
def test_there_is_a_line_for_each_file_however_wide_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists the weights that ship."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["weights"]) == 0
    lines = capsys.readouterr().out.splitlines()
    number = len(finding.shipped())
    assert len(lines) == number + 2
    assert max(map(len, lines)) <= columns
    assert lines[-1] == f"{number} files, checksums verified"
    assert ("commit" in lines[0]) == ("MOTA" in lines[1]) == (columns == 200)


def test_the_main_score_of_each_model_is_listed_as_in_the_zoo(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["weights"]) == 0
    said = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "F1 0.901" in said["clips"]
    assert "corridor@50 0.782" in said["maze"]
    assert "on mode 0.996" in said["single-ball"]
    assert "center 0.088" in said["two-layer"]
    assert "n =" not in said["two-layer"]
    assert "center 0.547, n = 60" in said["op3-obj3d"]
    assert "center fails (1.688)" in said["stove-two-layer"]
    assert "count 0.957" in said["sqair-digits-cpu"]
    assert "count" not in said["two-layer"]


def test_the_help_explains_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["weights", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for name in ("F1:", "center:", "strict:", "left:", "corridor@50:", "MOTA:", "docs/metrics.md"):
        assert name in said
