"""OP3 as a whole: schedules, slots, the fast path, objects from masks."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from test_host import waits
from test_studio_session import Page, shelf_of
from tiny import generator, loss
from tiny_op3 import SIZE, SIZES, SMALL, build, lively, slots
from torch import Tensor

import gswm
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.settings import to_dict
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred
from gswm.fast.selftest import FastPath, compare, plain
from gswm.models.op3.decoder import SlotPictures
from gswm.models.op3.masks import MaskConfig
from gswm.models.op3.op3 import Op3, Op3Config, behind
from gswm.models.op3.schedule import Op3Schedule
from gswm.models.registry import RECIPES, recipe
from gswm.weights import files

OURS = [name for name in RECIPES if name.startswith("op3-")]
PARAMETERS = {"decoder": 184_132, "refinement": 411_564, "dynamics": 280_417}
"""Numbers of the release; 268 of the refinement's are gains and shifts of norms."""


def video(batch: int = 2, time: int = 3, seed: int = 0) -> Tensor:
    return tiny.video(batch, time, SIZE, seed)


def test_parameters_are_as_many_as_in_the_release() -> None:
    model = Op3(Op3Config())
    count = {name: sum(p.numel() for p in net.parameters()) for name, net in model.named_children()}
    assert count == PARAMETERS
    assert sum(p.numel() for p in model.parameters()) == 876_305


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_ends_with_predictions_in_a_row(name: str) -> None:
    r: Any = recipe(name)
    schedule = r.model.schedule
    assert r.model.beta == 0.01
    assert schedule.order(schedule.stage(0)) == "RRRR"
    assert schedule.order(schedule.stage(schedule.lengths[1][0])) == "RRRRPRPRPR"
    assert schedule.order(schedule.stage(r.train.steps - 1)) == "RRRRPRPP"
    assert r.data.world == name.removeprefix("op3-")
    assert r.model.num_objects == (4 if name.endswith("two") else 7)
    assert gswm.world(r.data.world).num_objects < r.model.num_objects


# -- the loss


def test_the_loss_is_the_mean_over_steps_weighted_by_their_number() -> None:
    model, x = build(), video()
    stage = model.stage(0)
    assert model.cfg.schedule.order(stage) == "RRPRPR"
    noise = model.noise(2, stage, generator(4))
    got = model.loss(Batch(x), noise, torch.tensor(0), stage)
    now, total = model.start(noise.s[:, 0]), torch.zeros(2)
    for i, (time, kind) in enumerate(zip((0, 0, 1, 1, 2, 2), "RRPRPR", strict=True), start=1):
        eps = noise.s[:, i]
        now = (
            model.predict(now, eps)
            if kind == "P"
            else model.refine(model.look(x[:, time], now), eps)
        )
        look = model.look(x[:, time], now)
        if kind == "P":
            assert not look.kl.any()
        total = total + i * (look.nll + model.cfg.beta * look.kl)
    torch.testing.assert_close(got.total, (total / 21).mean())
    assert set(got.metrics) == {"squared_error", "predicted_error"}


def test_every_parameter_learns() -> None:
    model = build()
    loss(model, video()).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


def test_a_single_frame_trains_no_dynamics() -> None:
    model = build()
    loss(model, video(time=1)).total.backward()
    assert all(p.grad is None for p in model.dynamics.parameters())


def test_slots_have_no_order() -> None:
    """Permuting the noise of the slots permutes the slots."""
    model, x, known, order = lively(), video()[:, 0], slots(), [2, 0, 1]
    turned = map_tensors(lambda values: values[:, order], known)
    ours, theirs = (model.refine(model.look(x, each), each.eps) for each in (known, turned))
    ours, theirs = (model.predict(each, each.eps) for each in (ours, theirs))
    torch.testing.assert_close(ours.lam[:, order], theirs.lam, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(ours.d[:, order], theirs.d, atol=1e-4, rtol=1e-3)


def test_slots_differ_by_noise_alone() -> None:
    model, x = lively(), video()[:, 0]
    same = model.start(torch.ones(2, 3, model.cfg.sizes.state))
    after = model.refine(model.look(x, same), same.eps)
    torch.testing.assert_close(after.lam[:, :1].expand_as(after.lam), after.lam)
    track = model.infer(video())
    lam = track.state_at(0).slots.lam
    assert (lam[:, 0] - lam[:, 1]).abs().max() > 1e-3


# -- the fast path


@pytest.mark.parametrize("path", ["deferred", pytest.param("kernels", marks=pytest.mark.slow)])
def test_the_fast_path_gives_the_gradients_of_the_plain_one(path: FastPath) -> None:
    """The widths are ones that the MLP kernel supports."""
    model = replace(SMALL, sizes=replace(SIZES, hidden=16), schedule=SMALL.schedule.steady(4))
    found = compare(replace(recipe("op3-obj3d"), model=model), path, torch.device("cpu"))
    assert found.agrees, found
    assert found.gradient < 1e-4


@pytest.mark.parametrize("way", ["plain", "deferred"])
def test_a_step_waits_for_nothing(way: str) -> None:
    model, x = build(), video()
    stage, clock = model.stage(0), torch.zeros((), dtype=torch.int64)
    noise = model.noise(2, stage, generator())
    backward = Deferred(model) if way == "deferred" else plain
    assert not waits(lambda: backward(lambda: model.loss(Batch(x), noise, clock, stage)))


def test_what_is_replayed_waits_for_nothing() -> None:
    model, x, known = build(), video()[:, 0], slots()
    with torch.no_grad():
        assert not waits(lambda: model.refined(x, known, known.eps[:, None]))


def test_inference_leaves_nothing_to_learn_from() -> None:
    """After training steps too, whose methods are deferred."""
    model = lively()
    plain_track = deepcopy(model).infer(video())
    deferred = Deferred(model)
    deferred(lambda: loss(model, video()))
    with torch.inference_mode():
        track = model.infer(video())
    torch.testing.assert_close(track.xy, plain_track.xy)
    assert not any(method.calls for method in deferred.methods)
    assert not track.states[-1].slots.lam.requires_grad
    assert track.reconstruction is not None
    assert not track.reconstruction.requires_grad


# -- objects


def painted(logits: Tensor) -> SlotPictures:
    """Slots of one color each."""
    num = logits.shape[1]
    mu = torch.linspace(0, 1, num)[None, :, None, None, None].expand(-1, -1, 3, SIZE, SIZE)
    return SlotPictures(mu.expand(len(logits), -1, -1, -1, -1), logits)


def test_objects_are_slots_of_a_fitting_size() -> None:
    model, known = build(masks=MaskConfig(smallest=0.01, largest=0.3)), slots(1)
    logits = torch.full((1, 3, 1, SIZE, SIZE), -9.0)
    logits[:, 0] = 0  # the background
    logits[:, 1, :, 2:6, 4:12] = 9
    logits[:, 2, :, 14, 14] = 9  # too small
    state = model.located(known, painted(logits), None)
    assert state.pres.tolist() == [[0, 1, 0]]
    assert state.xy[0, 1].tolist() == [0, -0.5]
    assert state.hw[0, 1].tolist() == [0.25, 0.5]

    gone = torch.where(torch.tensor([False, True, False])[:, None, None, None], -9.0, logits)
    later = model.located(known, painted(gone), state)
    assert torch.equal(later.pres, state.pres)
    assert torch.equal(later.xy[0, 1], state.xy[0, 1])
    assert torch.equal(later.hw[0, 1], state.hw[0, 1])


def test_what_is_behind_objects_is_shown_without_them() -> None:
    logits = torch.zeros(1, 3, 1, SIZE, SIZE)
    shown = behind(painted(logits), torch.tensor([[1.0, 0, 1]]))
    torch.testing.assert_close(shown, torch.full_like(shown, 0.5))
    assert not behind(painted(logits), torch.ones(1, 3)).any()


def test_a_video_in_chunks_is_the_video() -> None:
    model, x = lively(), video(time=5)
    whole, parts = model.infer(x), list(model.infer_chunks([x[:, :2], x[:, 2:]], render=True))
    assert model.continues
    for name in ("xy", "hw", "pres", "id", "reconstruction"):
        both = torch.cat([getattr(part, name) for part in parts], dim=1)
        torch.testing.assert_close(both, getattr(whole, name), atol=1e-4, rtol=1e-3)


def test_the_studio_opens_it_without_edits() -> None:
    page = Page(shelf_of(lively(image_size=64))).open()
    ((opened, _),) = page.of("opened")
    assert opened["edits"] is False
    assert not page.of("error")
    assert np.isfinite(page.futures(0)).all()


def test_states_refuse_edits() -> None:
    model = lively()
    with pytest.raises(UserError, match="cannot be edited"):
        model.infer(video()).state_at(-1).move(0, (0.0, 0.0))


def test_saved_and_read_again_it_infers_the_same(tmp_path: Path) -> None:
    model, chosen = lively(), replace(recipe("op3-obj3d"), model=SMALL)
    files.save(tmp_path / "a.safetensors", model, chosen)
    again = gswm.load(tmp_path / "a.safetensors", device="cpu")
    torch.testing.assert_close(again.infer(video()).xy, model.infer(video()).xy)
    assert again.boxes_from == "masks"
    assert to_dict(again.cfg) == to_dict(SMALL)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_objects": 1}, "need 2 slots"),
        ({"image_size": 4}, "image-size is 4"),
        ({"std": 0.0}, "std is 0.0"),
        ({"schedule": Op3Schedule(later=0)}, "must be at least 1"),
        ({"schedule": Op3Schedule(ahead=((3, 1),))}, "must begin at step 0"),
        ({"schedule": Op3Schedule(background_only=5)}, "has no background"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        build(**changes)
