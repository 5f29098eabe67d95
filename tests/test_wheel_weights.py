"""The wheel contains the default models of the commands, and a catalog of all others."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import tiny

import gswm
from gswm.cli import main
from gswm.commands.demo import SCENES
from gswm.commands.studio import FIRST
from gswm.data.worlds.registry import WORLDS
from gswm.weights import finding
from gswm.weights.files import read_encoding, read_header

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import encode_weights
import wheel_weights

LARGEST = 50_000_000


def test_the_wheel_has_the_models_that_commands_use_by_default() -> None:
    flat = (s.name for s in SCENES if WORLDS[s.name].style != "stills")  # 3D needs MuJoCo too
    wanted = {*flat, FIRST, finding.ANY_VIDEO}
    assert sorted(wanted) == wheel_weights.listed()
    assert sum(file.stat().st_size for file in wheel_weights.files()) < LARGEST


def test_the_wheel_has_the_checksums_where_an_installed_package_looks_for_them() -> None:
    places = wheel_weights.included()
    assert f"gswm/{finding.INSTALLED.name}/checksums.txt" in places.values()
    assert finding.INSTALLED.parent == Path(gswm.__file__).parent
    assert all(file.is_file() for file in places)
    here = {file.stem for file in wheel_weights.WEIGHTS.glob("*.safetensors")}
    assert {file.stem for file in wheel_weights.files()} == here & set(wheel_weights.listed())


def test_the_checksums_list_every_file() -> None:
    files = wheel_weights.WEIGHTS.glob("*.safetensors")
    assert finding.checksums().keys() == {file.name for file in files}


def test_the_catalog_says_what_the_headers_say() -> None:
    catalog = wheel_weights.catalog()
    assert catalog.keys() == finding.shipped().keys()
    for name, path in finding.shipped().items():
        about = read_header(path)["about"]
        told = catalog[name]["about"]
        assert told["test"] == about["test"]
        assert told.items() <= about.items()
        assert catalog[name]["bytes"] == path.stat().st_size
        assert catalog[name]["ships"] == (name in wheel_weights.listed())


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like that of an installed wheel, with one of its models."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    shutil.copy(wheel_weights.WEIGHTS / "checksums.txt", folder)
    shutil.copy(wheel_weights.WEIGHTS / "two-layer.safetensors", folder)
    catalog = wheel_weights.catalog()
    for name, known in catalog.items():
        known["ships"] = name == "two-layer"
    (folder / finding.CATALOG).write_text(json.dumps(catalog))
    monkeypatch.setattr(finding, "SHIPPED", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(finding.ADDRESS, raising=False)
    return folder


def listing(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The line of `gswm weights` for each model; the last line has an empty name."""
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line for line in lines[1:-1]} | {"": lines[-1]}


def test_an_installed_package_lists_models_that_it_does_not_contain(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["weights"]) == 0
    said = listing(capsys)
    assert "shipped" in said["two-layer"]
    size = wheel_weights.catalog()["maze"]["bytes"] / 1e6
    assert re.match(rf"maze +{size:.1f}  not available .*corridor@50 0\.\d+", said["maze"])
    away = len(said) - 2
    assert said[""].startswith(f"1 file, checksums verified; {away} others are not installed: in a")

    monkeypatch.setenv(finding.ADDRESS, "https://example.org/weights")
    finding.cached("maze").parent.mkdir(parents=True)
    shutil.copy(wheel_weights.WEIGHTS / "maze.safetensors", finding.cached("maze"))
    assert main(["weights"]) == 0
    said = listing(capsys)
    assert " cache " in said["maze"]
    assert " downloadable " in said["occlusion"]
    assert said[""].startswith("2 files, checksums verified; `gswm weights fetch NAME` downloads")
    assert said[""].endswith(f"other {away - 1}")


def test_a_model_that_should_be_in_the_wheel_is_missed(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (installed / "two-layer.safetensors").unlink()
    assert main(["weights"]) == 2
    said = capsys.readouterr()
    assert "1 of 1 file is damaged or missing: two-layer missing" in said.err
    assert len(said.err.splitlines()) == 1


def test_all_weights_are_encoded_at_once_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finding, "SHIPPED", tmp_path)
    monkeypatch.setattr(encode_weights, "WEIGHTS", tmp_path)
    for name in ("single-ball", "two-layer"):
        tiny.ship(tmp_path, name, about={"step": 3})
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def encode(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["encode", "--folder", str(tmp_path), *words])
        encode_weights.main()

    encode()
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    encode("--write", "single-ball")
    assert read_encoding(finding.shipped()["single-ball"]) == "int8"
    assert finding.shipped()["two-layer"].read_bytes() == before[finding.shipped()["two-layer"]]
    encode("--write")
    coded = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert coded.keys() == before.keys()
    for name, file in finding.shipped().items():
        assert read_encoding(file) == "int8"
        assert len(coded[file]) < len(before[file]) / 2
        assert read_header(file)["about"] == {"step": 3}
        assert gswm.load(name).recipe == read_header(file)["recipe"]
    encode("--write")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == coded
    with pytest.raises(SystemExit, match="2"):
        encode("--write", "two-layr")
    assert "there are no weights two-layr" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["weights"]) == 0
    assert capsys.readouterr().out.endswith("2 files, checksums verified\n")
