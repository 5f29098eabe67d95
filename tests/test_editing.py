"""The interface of an editor: views, owners, regions, and continuing from a state."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import tiny
import torch
from torch import Tensor

from gswm.core.records import tensors
from gswm.models.base import Discover
from gswm.models.gswm.gswm import GSWM
from gswm.models.registry import RECIPES
from gswm.models.scene import Scene
from gswm.models.track import Track


def model(background: bool) -> GSWM:
    """A small model that sees objects everywhere."""
    made = tiny.build(tiny.config("maze" if background else "interaction")).eval()
    with torch.no_grad():
        for presence in ("discovery.mlp_disc", "propagation.latent.mlp_att"):
            made.get_parameter(f"{presence}.4.bias")[0] = 9.0
    return made


def flat(state: Scene) -> Tensor:
    return torch.cat([x.double().flatten() for x in tensors(state)])


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("discover", ["first", "always"])
def test_to_go_on_from_a_state_is_to_infer_it_all(background: bool, discover: Discover) -> None:
    made, video = model(background), tiny.video(time=5)
    whole = made.infer(video, discover=discover)
    first = made.infer(video[:, :2], discover=discover)
    rest = made.infer_after(first.state_at(-1), video[:, 2:], discover=discover)
    assert whole.reconstruction is not None
    assert rest.reconstruction is not None
    torch.testing.assert_close(rest.reconstruction, whole.reconstruction[:, 2:])
    torch.testing.assert_close(flat(rest.state_at(-1)), flat(whole.state_at(-1)))
    assert torch.equal(rest.id, whole.id[:, 2:])


# -- reported boxes: of a black, a static and a learned background, cut to what is drawn or not

SETTINGS = [
    pytest.param(recipe, tight, id=f"{recipe}-{'tight' if tight else 'whole'}")
    for recipe in ("interaction", "clips", "maze", "obj3d")
    for tight in (False, True)
]


class Blob(torch.nn.Module):
    """Draws each object as a disk, off the middle of its glimpse."""

    def forward(self, what: Tensor) -> Tensor:
        at = (torch.arange(16) + 0.5) / 8 - 1
        x, y = (what[:, :2].tanh() * 0.6)[..., None, None].unbind(dim=1)
        far = torch.hypot(at - x, at[:, None] - y)
        return torch.stack([far, -far, far - 1, 8 * (0.5 - far)], dim=1)


def seeing(recipe: str, tight: bool) -> tuple[GSWM, Track]:
    """A model that draws objects off the middle of their boxes, and what it sees."""
    changes = {"image_size": 64, "tight_boxes": tight, "boxes_by_label": recipe == "clips"}
    coarse = replace(RECIPES[recipe]().model.discovery, grid=4)
    made = tiny.lively(recipe, discovery=coarse, **changes).eval()
    assert made.cfg.reports_extents == tight
    made.renderer.deconv_what = Blob()
    return made, made.infer(tiny.video(batch=2), discover="first")


def box(made: GSWM, state: Scene, id: int) -> tuple[Tensor, Tensor]:
    """Center and size of an object, as a view of the state reports them."""
    view = made.view(state, torch.zeros(1, 3, 64, 64))
    slot = view.id[0, 0].tolist().index(id)
    return view.xy[0, 0, slot], view.hw[0, 0, slot]


@pytest.mark.parametrize(("recipe", "tight"), SETTINGS)
def test_the_view_of_a_state_is_the_frame_it_came_from(recipe: str, tight: bool) -> None:
    made, track = seeing(recipe, tight)
    future = made.imagine_from(track.state_at(-1), 2, sample=False)
    later = made.infer_after(track.state_at(0), tiny.video()[:, 1:])
    flat = {name: getattr(future, name)[:, 0] for name in FIELDS}
    for seen in (track, later, replace(future, **flat)):
        view = made.view(seen.state_at(1), seen.background[:, 1])
        for name in FIELDS:
            torch.testing.assert_close(getattr(view, name)[:, 0], getattr(seen, name)[:, 1])


FIELDS = ("xy", "hw", "depth", "pres", "id", "reconstruction", "background")


@pytest.mark.parametrize(("recipe", "tight"), SETTINGS)
def test_an_object_is_reported_where_an_edit_puts_it(recipe: str, tight: bool) -> None:
    made, track = seeing(recipe, tight)
    state = track[:1].state_at(-1)
    id = int(state.objects.id[0, 0])
    xy, hw = box(made, state, id)
    elsewhere, size = torch.tensor([0.3, -0.2]), torch.tensor([0.21, 0.34])

    moved = state.move(id, tuple(elsewhere.tolist()))
    torch.testing.assert_close(box(made, moved, id), (elsewhere, hw))
    back = moved.move(id, tuple(xy.tolist()))
    torch.testing.assert_close(flat(back), flat(state), atol=1e-6, rtol=1e-5)

    larger = state.change(id, hw=tuple(size.tolist()))
    torch.testing.assert_close(box(made, larger, id), (xy, size))
    back = larger.change(id, hw=tuple(hw.tolist()))
    torch.testing.assert_close(flat(back), flat(state), atol=1e-6, rtol=1e-5)

    other = int(state.objects.id[0, 1])
    disguised = state.change(id, look_of=other)
    torch.testing.assert_close(box(made, disguised, id), (xy, hw))
    back = disguised.remove(other).add(id, tuple(elsewhere.tolist()))
    torch.testing.assert_close(box(made, back, 3), (elsewhere, hw))


STILL: list[Callable[[Scene, int, Tensor, Tensor], Scene]] = [
    lambda state, id, xy, hw: state.move(id, tuple(xy.tolist())),
    lambda state, id, xy, hw: state.change(id, hw=tuple(hw.tolist())),
    lambda state, id, xy, hw: state.change(id, look_of=id),
]


@pytest.mark.parametrize(("recipe", "tight"), SETTINGS)
@pytest.mark.parametrize("edit", STILL)
def test_an_edit_to_what_is_there_already_changes_nothing(
    recipe: str, tight: bool, edit: Callable[[Scene, int, Tensor, Tensor], Scene]
) -> None:
    made, track = seeing(recipe, tight)
    state = track[:1].state_at(-1)
    id = int(state.objects.id[0, 0])
    assert torch.equal(flat(edit(state, id, *box(made, state, id))), flat(state))


@pytest.mark.parametrize(("recipe", "tight"), SETTINGS)
def test_what_is_drawn_moves_as_far_as_its_box(recipe: str, tight: bool) -> None:
    """Moves by whole pixels, so that the picture of the object does not change."""
    made, track = seeing(recipe, tight)
    state = track[:1].state_at(-1)
    for other in state.objects.id[0, 1:].tolist():
        state = state.remove(other)
    id = int(state.objects.id[0, 0])
    state = state.move(id, (0.0, 0.0)).change(id, hw=(0.2, 0.2))
    moved = state.move(id, (8 / 32, -4 / 32))
    before, after = (made.renderer(each.objects.o).alpha for each in (state, moved))
    assert before.amax() > 0.1
    torch.testing.assert_close(after[..., :-4, 8:], before[..., 4:, :-8], atol=1e-4, rtol=0)


def test_a_pixel_is_of_the_object_with_the_most_weight_on_it() -> None:
    made = model(False)
    state = made.infer(tiny.video(batch=1)).state_at(-1)
    owners = made.owners(state)[0]
    o, ids = state.objects.o, state.objects.id[0].tolist()
    layers = {}
    for id in ids:
        alone = state
        for other in ids:
            if other != id:
                alone = alone.remove(other)
        layers[id] = made.renderer(alone.objects.o).alpha[0, 0]
    depth = {id: o.depth[0, slot, 0].sigmoid().item() for slot, id in enumerate(ids)}
    for y in range(0, 64, 7):
        for x in range(0, 64, 7):
            alpha = {id: layer[y, x].item() for id, layer in layers.items()}
            best = max(alpha, key=lambda id: alpha[id] * depth[id])
            edge = min(abs(value - 0.5) for value in alpha.values()) < 1e-3
            expected = best if max(alpha.values()) > 0.5 else -1
            assert edge or owners[y, x].item() == expected


def test_regions_are_around_where_objects_were() -> None:
    made = model(False)
    track = made.infer(tiny.video(batch=1))
    before, state = track.state_at(0), track.state_at(1)
    found = made.proposals(before, state)
    low, high = made.propagation.cfg.proposal_range
    for slot in range(3):
        share = made.propagation.mlp_prop(state.objects.h_post.h[:, slot]).sigmoid()
        size = before.objects.o.hw[:, slot] + low + (high - low) * share
        torch.testing.assert_close(found.hw[:, slot], size)
    assert torch.equal(found.xy, before.objects.o.xy)
