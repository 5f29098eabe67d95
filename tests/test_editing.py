"""What an editor needs of a model: views, owners, regions, and to go on from a state."""

import pytest
import tiny
import torch
from torch import Tensor

from gswm.core.records import tensors
from gswm.models.base import Discover
from gswm.models.gswm.gswm import GSWM
from gswm.models.scene import Scene


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


@pytest.mark.parametrize("background", [False, True])
def test_the_view_of_a_state_is_the_frame_it_came_from(background: bool) -> None:
    made = model(background)
    track = made.infer(tiny.video())
    assert track.background is not None
    view = made.view(track.state_at(1), track.background[:, 1])
    for name in ("xy", "hw", "depth", "pres", "id", "reconstruction", "background"):
        torch.testing.assert_close(getattr(view, name)[:, 0], getattr(track, name)[:, 1])


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
