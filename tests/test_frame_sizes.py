"""Frames of 128 pixels: the same scenes as at 64, and models for them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SIZES as SMALL
from tiny import build, config, lively, loss, video

from gswm.cli import main
from gswm.commands.data import find
from gswm.commands.evaluate import episodes_of
from gswm.commands.train import TrainCommand
from gswm.core.errors import UserError
from gswm.core.records import concatenate
from gswm.data.episode import Episodes
from gswm.data.storage import hdf5
from gswm.data.worlds.base import World
from gswm.data.worlds.obj3d.settings import Settings
from gswm.data.worlds.obj3d.world import Obj3D
from gswm.data.worlds.registry import WORLDS, world
from gswm.eval.baselines import Baseline
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.objects import Sizes
from gswm.studio.catalog import Catalog
from gswm.train.distributed import Processes
from gswm.train.launch import training_loader, validator

BALLS = ("interaction", "occlusion", "two-layer", "two-layer-dense", "single-ball")
FLAT = (*BALLS, "maze", "digits")
LARGE = replace(SMALL, glimpse=32)


def made(there: World, episodes: int = 2) -> Episodes:
    return concatenate(list(there.episodes(5, episodes)))


@pytest.mark.parametrize(
    ("name", "size", "tolerance"),
    [
        *((name, 128, 0.0) for name in FLAT),
        *(
            pytest.param(name, 96, 1e-9, marks=[pytest.mark.slow] * (name in BALLS[1:]))
            for name in FLAT
        ),
    ],
)
def test_a_scene_is_the_same_at_every_size(name: str, size: int, tolerance: float) -> None:
    small, large = made(world(name), 1), made(world(name).resized(size), 1)
    assert large.video.shape[-2:] == (size, size)
    one, other = small.truth, large.truth
    assert one is not None
    assert other is not None
    for part in ("positions", "velocities", "sizes"):
        scaled = getattr(one, part) * (size / 64)
        torch.testing.assert_close(getattr(other, part), scaled, atol=tolerance, rtol=0)
    for part in ("ids", "layers", "order", "present", "colors"):
        assert torch.equal(getattr(other, part), getattr(one, part))


@pytest.mark.parametrize("name", FLAT)
def test_a_large_picture_is_the_small_one_enlarged(name: str) -> None:
    small, large = made(world(name), 1), made(world(name).resized(128), 1)
    pooled = torch.nn.functional.avg_pool2d(large.video[0].float(), 2)
    off = (pooled - small.video[0].float()).abs()
    # Pixels are points, and those of a large picture lie between; a maze has sharp edges.
    assert off.mean() < (8 if name == "maze" else 4)


@pytest.mark.parametrize("rule", ["walls", "simulator"])
def test_rules_of_balls_are_about_frames_of_any_size(rule: str) -> None:
    large = made(world("two-layer").resized(128))
    assert large.truth is not None
    track = Baseline("simulator" if rule == "simulator" else "walls").imagine(large, 10, 5)
    future = (track.xy[:, 0].double() + 1) / 2 * 128
    off = (future - large.truth.positions[:, 10:15]).abs()[large.truth.present[:, 10:15]]
    assert off.max() < (0.01 if rule == "simulator" else 64)


@pytest.mark.parametrize("name", ["two-layer", "single-ball", "maze"])
def test_a_file_of_large_frames_gives_back_the_truth(name: str, tmp_path: Path) -> None:
    out = tmp_path / "large.hdf5"
    args = ["data", "make", name, "--split", "test", "--episodes", "2", "--size", "128"]
    assert main([*args, "--out", str(out)]) == 0
    back, there = hdf5.read(out), world(name).resized(128)
    true = concatenate(list(there.episodes(there.splits["test"].seed, 2)))
    assert back.truth is not None
    assert true.truth is not None
    assert torch.equal(back.video, true.video)
    for part in ("positions", "sizes"):
        torch.testing.assert_close(getattr(back.truth, part), getattr(true.truth, part))


def test_solids_are_drawn_anew_at_128_and_boxes_fit_their_masks() -> None:
    short = Settings(num_frames=3, first_contact=(0.5, 28.0))
    scenes = next(Obj3D(settings=replace(short, num_frames=30)).scenes(3, 1, 1))
    scenes = replace(
        scenes,
        poses=scenes.poses[:, :3],
        motions=scenes.motions[:, :3],
        contacts=scenes[:0].contacts,
    )
    small, large = (Obj3D(settings=short, image_size=size).show(scenes) for size in (64, 128))
    assert small.truth is not None
    assert small.truth.hw is not None
    assert large.truth is not None
    assert large.truth.hw is not None
    assert large.space is not None
    for part in ("positions", "hw"):
        one, other = (getattr(truth, part) for truth in (small.truth, large.truth))
        torch.testing.assert_close(other, 2 * one, atol=1e-3, rtol=0)
    clear = (large.space.visibility == 1) & large.truth.present
    compared = 0
    for episode, time, slot in clear.nonzero().tolist():
        mask = (large.space.masks[episode, time] == slot + 1).numpy()
        x, y = large.truth.positions[episode, time, slot].tolist()
        h, w = large.truth.hw[episode, time, slot].tolist()
        if min(x - w / 2, y - h / 2) < 0 or max(x + w / 2, y + h / 2) > 128:
            continue
        compared += 1
        rows, columns = np.nonzero(mask)
        assert rows.max() + 1 - rows.min() == pytest.approx(h, abs=2.1)
        assert columns.max() + 1 - columns.min() == pytest.approx(w, abs=2.1)
    assert compared > 2
    sharp = large.video[0].float()
    enlarged = small.video[0].float().repeat_interleave(2, -1).repeat_interleave(2, -2)
    assert (sharp - enlarged).abs().max() > 20  # it is no copy of the small one


@pytest.mark.parametrize("name", [*FLAT, "obj3d", "clips"])
def test_a_size_that_cannot_be_drawn_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} has no frames of 4 pixels; use"):
        world(name).resized(4)


def test_obj3d_128_is_obj3d_at_128() -> None:
    assert WORLDS["obj3d-128"] == replace(world("obj3d").resized(128), name="obj3d-128")


# -- models


@pytest.mark.parametrize("recipe", ["two-layer", "obj3d"])
def test_every_parameter_learns_with_glimpses_of_32_in_frames_of_128(recipe: str) -> None:
    model = build(config(recipe, image_size=128, sizes=LARGE))
    loss(model, video(size=128)).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert still == []


def test_a_model_with_large_glimpses_infers_and_imagines() -> None:
    model = lively("obj3d", image_size=128, sizes=LARGE)
    track = model.imagine(video(1, 3, 128), 3, 2)
    assert track.reconstruction is not None
    assert track.reconstruction.shape[-2:] == (128, 128)
    seen = model.infer(video(1, 3, 128))
    assert seen.pres.max() > 0.5


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([16, 32, 64]))
def test_a_glimpse_of_any_size_is_drawn_in_the_whole_of_its_box(glimpse: int) -> None:
    model = lively("interaction", sizes=replace(SMALL, glimpse=glimpse))
    drawn = model.renderer.deconv_what(torch.zeros(1, SMALL.what))
    assert drawn.shape == (1, 4, glimpse, glimpse)
    seen = model.infer(video(1, 2))
    assert seen.reconstruction is not None
    assert seen.reconstruction.isfinite().all()


def test_positions_stay_in_pixels_when_the_image_size_is_set() -> None:
    def scale(*args: str) -> float:
        model = TrainCommand.from_args(["two-layer", *args]).recipe.model
        assert isinstance(model, GSWMConfig)
        return model.propagation.position_scale

    assert scale() == 32
    assert scale("--model.image-size", "128") == 64
    chosen = ("--model.propagation.position-scale", "1.0")
    assert scale("--model.image-size", "128", *chosen) == 1


def test_worlds_are_drawn_at_the_size_of_the_model() -> None:
    args = ["two-layer", "--model.image-size", "128", "--data.episodes", "2"]
    recipe = TrainCommand.from_args([*args, "--train.batch", "1"]).recipe
    few = replace(recipe, train=replace(recipe.train, validation_episodes=1))
    loader = training_loader(few, torch.device("cpu"), Processes())
    assert loader.batch(0).video.shape[-2:] == (128, 128)
    loader.close()
    assert validator(few, torch.device("cpu"))[0] is not None
    assert find("two-layer", 0, size=128).video.shape[-1] == 128
    assert next(episodes_of("two-layer", "test", 1, 128)).video.shape[-1] == 128
    shelf = Catalog()
    shelf.add_world("two-layer")
    for size in (64, 128, 64):
        assert shelf.episode("two-layer", 1, size).video.shape[-1] == size


def test_a_glimpse_has_a_size_that_a_decoder_can_give() -> None:
    with pytest.raises(UserError, match="glimpse is 20"):
        config(sizes=Sizes(glimpse=20)).check()


def test_a_file_of_another_size_than_the_models_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.hdf5"
    assert main(["data", "make", "single-ball", "--episodes", "2", "--out", str(out)]) == 0
    args = ["train", "single-ball", "--data", str(out), "--model.image-size", "128"]
    assert main([*args, "--device", "cpu", "--out", str(tmp_path / "run")]) == 2
    assert "has frames of 64 × 64 pixels" in capsys.readouterr().err
