"""Weights files: saved weights are loaded unchanged, and bad files cause a one-line error."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import SIZES, generator, video

import gswm
from gswm.core.errors import UserError
from gswm.core.files import DiskFullError
from gswm.core.settings import from_dict, to_dict
from gswm.models.gswm.gswm import GSWM
from gswm.models.recipe import Recipe
from gswm.models.registry import recipe
from gswm.weights.files import FORMAT, fill, load, read_header, save
from gswm.weights.finding import find, shipped


def small() -> tuple[Recipe, GSWM]:
    maze = recipe("maze")
    maze = replace(maze, model=replace(maze.model, sizes=SIZES, num_objects=2))
    torch.manual_seed(0)
    return maze, gswm.build(maze)


def test_a_loaded_model_infers_and_imagines_the_same(tmp_path: Path) -> None:
    maze, model = small()
    save(tmp_path / "w.safetensors", model, maze, about={"steps": 3})
    again = gswm.load(tmp_path / "w.safetensors")
    assert again.cfg == model.cfg
    assert not again.training
    frames = video(1, 2)
    a, b = (m.imagine(frames, 2, 2, futures=2, generator=generator()) for m in (model, again))
    assert torch.equal(a.reconstruction, b.reconstruction)
    header = read_header(tmp_path / "w.safetensors")
    assert header == {"recipe": maze, "about": {"steps": 3}}


def test_weights_of_another_scale_of_positions_fill_a_model_with_the_same_function(
    tmp_path: Path,
) -> None:
    maze, model = small()
    save(tmp_path / "w", model, maze)
    plain = replace(maze.model.propagation, position_scale=1.0)
    other = gswm.build(replace(maze, model=replace(maze.model, propagation=plain)))
    fill(other, tmp_path / "w")
    assert other.cfg.propagation.position_scale == 1
    a, b = (m.imagine(video(1, 2), 2, 2, sample=False) for m in (model, other))
    torch.testing.assert_close(a.reconstruction, b.reconstruction, atol=1e-5, rtol=1e-5)


def test_settings_from_before_positions_had_a_scale_mean_none() -> None:
    saved = to_dict(recipe("two-layer"))
    del saved["model"]["propagation"]["position_scale"]
    assert from_dict(Recipe, saved).model.propagation.position_scale == 1
    assert load("maze-no-sa").cfg.propagation.position_scale == 1


def test_a_loaded_model_is_saved_again_with_its_recipe(tmp_path: Path) -> None:
    maze, model = small()
    save(tmp_path / "first", model)
    again = load(tmp_path / "first")
    assert again.recipe == model.recipe == maze
    with torch.no_grad():
        next(again.parameters()).add_(1)
    save(tmp_path / "second", again, about={"step": 1})
    assert read_header(tmp_path / "second") == {"recipe": maze, "about": {"step": 1}}
    want = again.state_dict()
    for name, tensor in load(tmp_path / "second").state_dict().items():
        assert torch.equal(tensor, want[name])
    save(tmp_path / "third", again, replace(maze, seed=7))
    assert read_header(tmp_path / "third")["recipe"].seed == 7


def test_a_model_without_a_recipe_is_not_saved(tmp_path: Path) -> None:
    maze, _ = small()
    with pytest.raises(UserError, match=r"has no recipe: pass one, as in gswm\.save"):
        save(tmp_path / "w", GSWM(maze.model))
    assert not list(tmp_path.iterdir())


def test_a_state_made_before_saving_goes_on_after_loading(tmp_path: Path) -> None:
    maze, model = small()
    state = model.infer(video(1, 2)).state_at(-1)
    save(tmp_path / "w.safetensors", model, maze)
    future = load(tmp_path / "w.safetensors").imagine_from(state, 2, sample=False)
    want = model.imagine_from(state, 2, sample=False)
    assert torch.equal(future.reconstruction, want.reconstruction)


def test_a_weight_that_has_changed_on_the_disk_is_noticed(tmp_path: Path) -> None:
    maze, model = small()
    file = tmp_path / "w.safetensors"
    save(file, model, maze)
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    with pytest.raises(UserError, match="is damaged: its checksum does not match"):
        load(file)


def test_half_precision_is_half_as_large_and_nearly_the_same(tmp_path: Path) -> None:
    maze, model = small()
    save(tmp_path / "whole", model, maze)
    save(tmp_path / "half", model, maze, half=True)
    assert (tmp_path / "half").stat().st_size < 0.55 * (tmp_path / "whole").stat().st_size
    half = load(tmp_path / "half").state_dict()
    for key, tensor in model.state_dict().items():
        assert half[key].dtype == torch.float32
        torch.testing.assert_close(half[key], tensor, atol=1e-3, rtol=1e-3)


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maze, model = small()
    save(tmp_path / "deep" / "er" / "w", model, maze)
    before = (tmp_path / "deep" / "er" / "w").read_bytes()

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DiskFullError, match=r"not enough space to write .* \(no space left"):
        save(tmp_path / "deep" / "er" / "w", model, maze)
    assert (tmp_path / "deep" / "er" / "w").read_bytes() == before
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["w"]


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(
        UserError, match=r"is not a run folder, a \.safetensors file or a shipped model"
    ):
        load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="is not a safetensors file, or is damaged"):
        load(tmp_path / "text")
    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(UserError, match="does not contain gswm weights"):
        load(tmp_path / "other")


def test_a_fit_has_its_weights_or_those_of_its_last_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder: it has neither recipe"):
        find(tmp_path)
    (tmp_path / "fit.json").touch()
    with pytest.raises(UserError, match="has no weights yet"):
        find(tmp_path)
    for name in ("model", "run-1/best", "run-2/last", "weights"):
        file = tmp_path / f"{name}.safetensors"
        file.parent.mkdir(exist_ok=True)
        file.touch()
        assert find(tmp_path) == file
        if name == "model":  # of `gswm export --hub`
            file.unlink()


def test_a_folder_that_is_no_run_hides_no_weights_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "two-layer"
    run.mkdir()
    (run / "future.gif").write_text("what `gswm imagine two-layer --out two-layer` leaves")
    assert find("two-layer") == shipped()["two-layer"]
    for other in (run, "./two-layer"):
        with pytest.raises(UserError, match="two-layer is not a run folder"):
            find(other)
    (run / "recipe.json").write_text("{}")
    with pytest.raises(UserError, match="two-layer has no weights yet"):
        find("two-layer")
    (run / "last.safetensors").touch()
    assert find("two-layer").resolve() == run / "last.safetensors"


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    maze, model = small()
    path = tmp_path / "w"
    save(path, model, maze)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(UserError, match="damaged"):
        load(path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    maze, model = small()
    save(tmp_path / "w", model, maze)
    tensors = load_file(tmp_path / "w")
    header = {"format": FORMAT, "recipe": json.dumps(to_dict(maze)), "about": "{}"}
    tensors.pop("context.h_0")
    save_file(tensors, tmp_path / "lacks", header)
    with pytest.raises(UserError, match="does not fit this model") as error:
        load(tmp_path / "lacks")
    assert str(error.value).endswith(": context.h_0 differs")


def test_a_model_that_is_made_by_values_is_refused_by_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = tmp_path / "other.safetensors", GSWM.__init__

    def count(self: GSWM, cfg: Any) -> None:
        made(self, cfg)
        assert int(torch.ones(2).sum()) == 2

    monkeypatch.setattr(GSWM, "__init__", count)
    save(path, gswm.build("maze"))
    with pytest.raises(UserError, match="does not fit this model: model"):
        fill(gswm.build("two-layer"), path)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (
            "maze",
            "model.background is learned in the file and black in the model, "
            "model.sizes.what is 16 in",
        ),
        ("scalor-two-layer", "the weights are for Scalor, not GSWM"),
    ],
)
def test_weights_of_another_recipe_are_refused_by_the_settings_to_blame(
    of: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.safetensors"
    save(path, gswm.build(of))
    with pytest.raises(UserError, match="does not fit this model") as error:
        fill(gswm.build("two-layer"), path)
    said = str(error.value).removeprefix(f"{path} does not fit this model: ")
    assert said.startswith(why)
    assert len(said) < 200
    assert "num_objects" not in said  # which changes no weights
