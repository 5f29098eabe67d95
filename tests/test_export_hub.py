"""`gswm export`: compact files, names, and folders for a model hub."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

import gswm
from gswm.cli import main
from gswm.data.worlds.registry import WORLDS
from gswm.weights import files, hub
from gswm.weights.encoding import halved

pytestmark = pytest.mark.usefixtures("small_trunk")
NAME = "single-ball"
ABOUT = {"step": 120, "minutes": 7.25, "seed": 3, "device": "some GPU", "commit": "abc1234"}
SCORES = {"on_mode": 0.75, "objects": 1.0, "end_error": None}
TEST = WORLDS[NAME].splits["test"].episodes


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A file of weights that knows how it was trained."""
    small = replace(gswm.recipe(NAME), seed=3)
    small = replace(small, model=replace(small.model, sizes=tiny.SIZES))
    torch.manual_seed(0)
    files.save(tmp_path / "w.safetensors", gswm.build(small), small, about=ABOUT)
    return tmp_path / "w.safetensors"


def measured(path: Path, episodes: int) -> Path:
    """A short version of the output of `gswm eval --json`."""
    held: dict[str, Any] = {"command": "gswm eval w", "episodes": episodes, "seed": 5}
    held |= {"commit": "def", "protocol": {"name": "gswm-5-4"}, "data": {"world": NAME}}
    held |= {"scores": SCORES | {"misses": 86.0}, "model": {"recipe": NAME, "about": ABOUT}}
    path.write_text(json.dumps(held))
    return path


def exported(trained: Path, folder: Path, *more: str) -> tuple[str, dict[str, Any]]:
    """The card and the settings in a folder."""
    assert main(["export", str(trained), "--hub", str(folder), *more]) == 0
    return (folder / "README.md").read_text(), json.loads((folder / "config.json").read_text())


def sections(card: str) -> dict[str, str]:
    """The parts of a card, by their titles; its front matter is the first."""
    _, front, body = card.split("---\n", 2)
    parts = re.split(r"^## (.*)$", body, flags=re.M)
    return {"": front} | dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_folder_for_a_hub_has_weights_settings_and_a_complete_card(
    trained: Path, tmp_path: Path
) -> None:
    scores = measured(tmp_path / "eval.json", TEST)
    folder = tmp_path / "hub"
    card, config = exported(trained, folder, "--compact", "--scores", str(scores))
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", hub.FILE]
    model = gswm.load(folder / hub.FILE)
    assert config["recipe"]["name"] == NAME
    assert config["recipe"]["model"]["image_size"] == model.image_size
    assert config["encoding"] == "int8"
    assert config["about"]["test"] == SCORES | {"misses": 86.0}
    said = sections(card)
    assert "A G-SWM world model" in card
    assert "pip install -c constraints.txt -e '.[hub]'" in said["Use"]
    assert list(said) == ["", "Use", "Scores", "Training", "Limits", "Files", "License"]
    assert 'license: "apache-2.0"' in said[""]
    (index,) = map(json.loads, re.findall(r"^model-index: (.*)$", said[""], re.M))
    metrics = index[0]["results"][0]["metrics"]
    assert {each["type"]: each["value"] for each in metrics} == {
        **{"on_mode": 0.75, "objects": 1.0, "misses": 86.0},
    }
    assert "| on_mode | 0.7500 |" in said["Scores"]
    assert "| misses | 86 |" in said["Scores"]
    assert "docs/metrics.md" in said["Scores"]
    assert f'gswm.world("{NAME}").episodes' in said["Use"]
    assert f"(n): {TEST}, all of `{NAME}`" in said["Scores"]
    assert "training seed: 3" in said["Scores"]
    assert "evaluation seed: 5" in said["Scores"]
    assert "`gswm eval w`" in said["Scores"]
    assert "end_error" not in card
    assert "gswm train single-ball" in said["Training"]
    assert "7.2 minutes, 120 steps" in said["Training"]
    assert "some GPU" in said["Training"]
    assert f"at most {model.cfg.num_objects} objects" in said["Limits"]
    assert "background must be black" in said["Limits"]
    assert "apache-2.0" in said["License"]
    assert "8 bits" in said["Files"]


def test_a_card_says_what_is_not_known(trained: Path, tmp_path: Path) -> None:
    card, _ = exported(trained, tmp_path / "hub", "--license", "cc-by-4.0")
    assert "have not been evaluated" in sections(card)["Scores"]
    assert "model-index" not in card
    assert 'license: "cc-by-4.0"' in card
    few = measured(tmp_path / "eval.json", 2)
    card, _ = exported(trained, tmp_path / "other", "--scores", str(few))
    assert f"(n): 2 of {TEST}: preliminary" in card


def test_a_card_installs_what_the_episodes_of_its_world_need(trained: Path, tmp_path: Path) -> None:
    model = gswm.load(trained)
    assert model.recipe is not None
    solids = replace(model.recipe, data=replace(model.recipe.data, world="obj3d-128"))
    files.save(tmp_path / "w.safetensors", model, solids, about=ABOUT)
    card, _ = exported(tmp_path / "w.safetensors", tmp_path / "hub")
    assert "pip install -c constraints.txt -e '.[hub,sim]'" in sections(card)["Use"]


def test_a_card_names_files_without_their_folders(trained: Path, tmp_path: Path) -> None:
    model = gswm.load(trained)
    assert model.recipe is not None
    away = replace(model.recipe, data=replace(model.recipe.data, world="/home/me/mine.hdf5"))
    files.save(tmp_path / "mine.safetensors", model, away, about=ABOUT)
    card, _ = exported(tmp_path / "mine.safetensors", tmp_path / "hub")
    assert "`mine.hdf5`" in card
    assert 'gswm.read_video("film.mp4"' in card
    assert "--data.world mine.hdf5" in card
    assert "/home/me" not in card


def test_files_in_a_folder_are_replaced_only_if_that_is_said(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    args = ["export", str(trained), "--hub", str(folder)]
    assert main(args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("README.md exists; use --force to overwrite it, or choose another --hub")
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert main([*args, "--force"]) == 0
    assert main(args) == 2
    assert (folder / "README.md").read_text() != "mine"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--half", "--compact"], "--half or --compact"),
        (["--hub", "x", "--out", "y.safetensors"], "--out or --hub"),
        (["--hub", "x", "--license", "a\nb: c"], "it must be an SPDX identifier"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    more: list[str],
    said: str,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(trained.parent)
    before = sorted(trained.parent.iterdir())
    assert main(["export", str(trained), *more]) == 2
    assert said in capsys.readouterr().err
    assert sorted(trained.parent.iterdir()) == before


def test_a_compact_export_is_smaller_and_nearly_the_same(trained: Path, tmp_path: Path) -> None:
    sizes = {}
    for kind in ("half", "compact"):
        out = tmp_path / f"{kind}.safetensors"
        assert main(["export", str(trained), f"--{kind}", "--out", str(out)]) == 0
        sizes[kind] = out.stat().st_size
        assert files.read_header(out) == files.read_header(trained)
    assert sizes["compact"] < sizes["half"]
    want = halved(gswm.load(trained).state_dict())
    for name, tensor in gswm.load(tmp_path / "compact.safetensors").state_dict().items():
        torch.testing.assert_close(tensor, want[name].float(), rtol=0, atol=0.01)


@pytest.mark.parametrize(("kind", "encoding"), [("half", "float16"), ("compact", "int8")])
def test_an_export_of_a_file_keeps_its_encoding(
    kind: str, encoding: str, trained: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source.safetensors"
    assert main(["export", str(trained), f"--{kind}", "--out", str(source)]) == 0
    _, config = exported(source, tmp_path / "hub")
    assert config["encoding"] == encoding
    want = gswm.load(source).state_dict()
    for name, tensor in gswm.load(tmp_path / "hub" / hub.FILE).state_dict().items():
        assert torch.equal(tensor, want[name])


def test_old_files_have_the_encoding_of_their_tensors() -> None:
    shipped = Path(__file__).parents[1] / "weights"
    assert files.read_encoding(shipped / "scalor-interaction.safetensors") is None
    assert files.encoding_in(shipped / "scalor-interaction.safetensors") == "float16"


def test_cards_have_the_names_of_papers_and_learned_backgrounds(tmp_path: Path) -> None:
    card, _ = exported(Path("op3-obj3d"), tmp_path / "hub")
    assert "An OP3 world model" in card
    assert "must be black" not in card


def test_a_model_is_exported_by_its_name_to_the_working_folder(
    no_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.ship(no_weights, NAME)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["export", NAME, "--compact"]) == 0
    assert [path.name for path in Path().iterdir()] == [f"{NAME}.safetensors"]
    assert gswm.load(Path(f"{NAME}.safetensors")).recipe == gswm.load(NAME).recipe
