"""Laws and contracts of SCALOR, SILOT and SQAIR: files, states, sizes and edits."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_scalor
import tiny_silot
import tiny_sqair
import torch
from tiny import loss, video

import gswm
from gswm.core.records import tensors
from gswm.models.registry import recipe
from gswm.models.scalor.discovery import ScalorDiscovery
from gswm.weights.files import load, save

MODELS = {
    "scalor-single-ball": tiny_scalor,
    "silot-two-layer": tiny_silot,
    "sqair-digits": tiny_sqair,
}


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_saved_and_loaded(name: str, tmp_path: Path) -> None:
    chosen = recipe(name)
    settings: Any = chosen.model
    chosen = replace(chosen, model=replace(settings, sizes=MODELS[name].SIZES))
    torch.manual_seed(0)
    model, path = gswm.build(chosen), tmp_path / "w.safetensors"
    save(path, model, chosen)
    again = load(path)
    assert type(again) is type(model)
    assert again.cfg == chosen.model
    same = zip(model.state_dict().values(), again.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in same)


@pytest.mark.parametrize("name", MODELS)
def test_states_hold_no_gradients(name: str) -> None:
    track = MODELS[name].lively().infer(video(1, 2))
    assert track.states
    assert not any(x.requires_grad for x in tensors(track.states))


def gridded(grid: int) -> Callable[..., Any]:
    """SCALOR, with a grid that fits the image."""
    return partial(tiny_scalor.lively, discovery=ScalorDiscovery(grid=grid))


@pytest.mark.parametrize(
    ("lively", "size", "slots"),
    [
        *((gridded(grid), size, slots) for grid, size, slots in ((8, 64, 1), (8, 128, 20))),
        (gridded(2), 32, 3),
        *((tiny_silot.lively, size, slots) for size, slots in ((24, 1), (64, 40), (100, 3))),
        *((tiny_sqair.lively, size, slots) for size, slots in ((16, 1), (64, 12), (104, 3))),
    ],
)
def test_any_image_and_any_number_of_slots(
    lively: Callable[..., Any], size: int, slots: int
) -> None:
    model = lively(image_size=size, num_objects=slots)
    frames = video(1, 2, size)
    track = model.infer(frames)
    assert track.reconstruction.shape == frames.shape
    assert track.pres.shape == (1, 2, slots)
    loss(model, frames).total.backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("lively", [tiny_silot.lively, tiny_sqair.lively])
def test_inference_continues_from_a_state(lively: Callable[[], Any]) -> None:
    model, frames = lively(), video(2, 6)
    whole = model.infer(frames)
    first = model.infer(frames[:, :4])
    rest = model.infer_after(first.state_at(-1), frames[:, 4:], discover="always")
    for name in ("xy", "hw", "pres", "id", "reconstruction"):
        parts = torch.cat([getattr(first, name), getattr(rest, name)], dim=1)
        torch.testing.assert_close(parts, getattr(whole, name), atol=1e-4, rtol=1e-3)
    after = model.infer_after(first.state_at(-1), frames[:, 4:])
    assert after.id.max() <= first.id.max()


def opaque_silot() -> Any:
    model = tiny_silot.lively(num_objects=4)
    with torch.no_grad():
        model.renderer.decoder.mlp.bias[3 * 14 * 14 :] = 3
    return model


def bright_sqair() -> Any:
    model = tiny_sqair.lively(num_objects=4)
    with torch.no_grad():
        model.renderer.decoder[-1].bias.fill_(3)
    return model


@pytest.mark.parametrize("build", [opaque_silot, bright_sqair])
def test_a_state_can_be_edited_drawn_and_asked_for_its_pixels(build: Callable[[], Any]) -> None:
    model = build()
    scene = model.infer(video(1, 2)).state_at(-1)
    there = [i for i in scene.objects.id[0].tolist() if i >= 0][:2]
    for i in scene.objects.id[0].tolist():
        if i not in (*there, -1):
            scene = scene.remove(i)
    edited = scene.move(there[0], (-0.5, -0.5)).change(there[0], hw=(0.2, 0.3), depth=5.0)
    edited = edited.move(there[1], (0.5, 0.5)).change(there[1], hw=(0.2, 0.2))
    track = model.view(edited, torch.full((1, 3, 64, 64), 0.25))
    assert track.reconstruction.shape == (1, 1, 3, 64, 64)
    assert track.reconstruction[0, 0, :, 0, 63].tolist() == pytest.approx([0.25] * 3)
    owners = model.owners(edited)[0]
    assert [int(owners[16, 16]), int(owners[48, 48]), int(owners[0, 63])] == [*there, -1]
    near = model.proposals(scene, edited)
    assert near.xy.shape == near.hw.shape == (1, 4, 2)
    gone = edited.remove(there[1])
    assert (model.imagine_from(gone, 2, futures=2).id != there[1]).all()
    assert int(gone.add(there[0], (0.0, 0.0)).objects.id.max()) == int(scene.objects.born[0])
