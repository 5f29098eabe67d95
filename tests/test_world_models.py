"""Laws of every model: inference and imagination, over time and over futures."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import pytest
import tiny
import tiny_op3
import tiny_scalor
import tiny_silot
import tiny_sqair
import tiny_stove
import torch
from tiny import generator, loss
from tiny_stove import VARIANTS
from torch import Tensor
from torch.nn.functional import pad

import gswm
from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.models.base import WorldModel
from gswm.models.state import State
from gswm.models.track import Track

GSWMS = ("interaction", "maze", "maze-no-aoe", "maze-no-mu", "single-ball-d")
MODELS: dict[str, Callable[..., Any]] = {
    **{f"G-SWM of {name}": partial(tiny.lively, name) for name in GSWMS},
    "OP3": tiny_op3.lively,
    "SCALOR": tiny_scalor.lively,
    "SCALOR with background": partial(tiny_scalor.lively, background=True),
    "SILOT": tiny_silot.lively,
    "SQAIR": tiny_sqair.lively,
    **{f"STOVE, {name}": partial(tiny_stove.build, cfg) for name, cfg in VARIANTS.items()},
}
EVERY = pytest.mark.parametrize("name", MODELS)
EACH = pytest.mark.parametrize(
    "name", ["G-SWM of maze", "OP3", "SCALOR with background", "SILOT", "SQAIR", "STOVE, usual"]
)
FINDERS = pytest.mark.parametrize(
    "name", ["G-SWM of interaction", "G-SWM of maze", "SCALOR", "SILOT", "SQAIR"]
)
"""Those that find out how many objects there are."""
NAMES = ("xy", "hw", "depth", "pres", "id", "reconstruction", "background")


@cache
def built(name: str) -> Any:
    return MODELS[name]()


def setting(name: str, batch: int, time: int) -> tuple[Any, Tensor]:
    """A model, which no test changes, and a video for it."""
    model = built(name)
    return model, tiny.video(batch, time, model.image_size)


def close(a: Track, b: Track, frames: slice = slice(None), of: slice = slice(None)) -> None:
    """Assert that two tracks agree, on some frames of some videos."""
    for name in NAMES:
        left, right = getattr(a, name), getattr(b, name)
        torch.testing.assert_close(left[of][:, frames], right[:, frames], atol=1e-4, rtol=1e-3)


@EACH
def test_it_is_a_world_model_and_its_states_can_be_edited(name: str) -> None:
    model, video = setting(name, 1, 1)
    assert isinstance(model, WorldModel)
    for module, method in (*model.recurrent(), *model.batched(), *model.replayable()):
        assert callable(getattr(module, method))
    assert isinstance(model.infer(video).state_at(0), State)


# -- inference and the loss


@EVERY
def test_later_frames_change_nothing_before_them(name: str) -> None:
    model, video = setting(name, 2, 4)
    other = video.clone()
    other[:, 3] = 1 - other[:, 3]
    a, b = model.infer(video), model.infer(other)
    assert (a.pres > 0.5).any()
    close(a, b, slice(0, 3))
    assert (a.xy[:, 3] - b.xy[:, 3]).abs().max() > 1e-5


@EVERY
def test_videos_of_a_batch_do_not_meet(name: str) -> None:
    model, video = setting(name, 3, 3)
    close(model.infer(video), model.infer(video[1:2]), of=slice(1, 2))


@EACH
def test_bytes_and_floats_are_the_same_video(name: str) -> None:
    model, video = setting(name, 1, 3)
    video = (255 * video).to(torch.uint8)
    close(model.infer(video), model.infer(video / 255))
    torch.testing.assert_close(loss(model, video).total, loss(model, video / 255).total)


@EACH
def test_the_same_seed_gives_the_same_loss(name: str) -> None:
    model, video = setting(name, 2, 3)
    a, b, c = (loss(model, video, seed=s).total for s in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@EVERY
def test_a_sample_of_the_posterior_depends_on_its_seed_alone(name: str) -> None:
    model, video = setting(name, 2, 3)
    mean = model.infer(video)
    a, b, c = (model.infer(video, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(a.reconstruction, b.reconstruction)
    for other in (c, mean):
        assert (a.xy[:, -1] - other.xy[:, -1]).abs().max() > 1e-5
    close(mean, model.infer(video))


@EACH
def test_a_posterior_without_noise_gives_its_means(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, video = setting(name, 2, 4)
    for kind in ("gswm.noise", "objects", "op3.noise", "scalor.noise", "stove.stove"):
        for noise in ("normal_noise", "logistic_noise"):
            place = f"gswm.models.{kind}.{noise}"
            monkeypatch.setattr(place, lambda shape, _: torch.zeros(shape), raising=False)
    close(model.infer(video, generator=generator()), model.infer(video))


@EACH
def test_imagining_after_a_sample_is_drawing_it_and_then_the_futures(name: str) -> None:
    model, video = setting(name, 2, 4)
    a = model.imagine(video, 3, 2, futures=3, generator=generator(4), sample_given=True)
    drawn = generator(4)
    state = model.infer(video[:, :3], discover="first", generator=drawn).state_at(-1)
    b = model.imagine_from(state, 2, futures=3, generator=drawn)
    for attribute in NAMES:
        assert torch.equal(getattr(a, attribute), getattr(b, attribute)), attribute
    plain = model.imagine(video, 3, 2, futures=3, generator=generator(4))
    assert not torch.equal(a.xy, plain.xy)
    twice = [model.imagine(video, 3, 2, sample=False, sample_given=True).xy for _ in range(2)]
    assert torch.equal(*twice)


@FINDERS
def test_ids_stay_and_are_small(name: str) -> None:
    track = MODELS[name](num_objects=6).infer(tiny.video(3, 5))
    for b in range(3):
        seen = {i for frame in track.id[b].tolist() for i in frame if i >= 0}
        assert seen == set(range(len(seen)))
        for t in range(5):
            there = [i for i in track.id[b, t].tolist() if i >= 0]
            assert len(there) == len(set(there))
            if t > 0:
                old = {i: k for k, i in enumerate(track.id[b, t - 1].tolist()) if i >= 0}
                assert all(old.get(i, k) == k for k, i in enumerate(track.id[b, t].tolist()))


# -- imagination


@EACH
def test_imagination_sees_only_the_given_frames(name: str) -> None:
    model, video = setting(name, 2, 5)
    other = video.clone()
    other[:, 3:] = 0
    for sample in (True, False):
        a, b = (model.imagine(x, 3, 2, futures=2, sample=sample) for x in (video, other))
        assert torch.equal(a.reconstruction, b.reconstruction)
        assert torch.equal(a.xy, b.xy)


@EACH
def test_nobody_comes_or_goes_in_imagination(name: str) -> None:
    model, video = setting(name, 2, 3)
    future = model.imagine(video, 3, 4, futures=2)
    for attribute in ("pres", "id"):
        last = getattr(future.past, attribute)[:, -1][:, None, None]
        assert torch.equal(getattr(future, attribute), last.expand(-1, 2, 4, -1))


@FINDERS
def test_after_the_first_frame_imagination_discovers_nothing(name: str) -> None:
    model, video = MODELS[name](num_objects=20), tiny.video(2, 3)
    given, always = model.imagine(video, 3, 1).past, model.infer(video)
    assert (given.id.amax(dim=2) <= given.id[:, :1].amax(dim=2)).all()
    assert (always.id.amax(dim=(1, 2)) >= given.id.amax(dim=(1, 2))).all()


@EACH
def test_a_state_is_all_that_carries_on(name: str) -> None:
    """Imagining 2 frames and then 3 more is imagining 5."""
    model, video = setting(name, 2, 3)
    whole = model.imagine(video, 3, 5, sample=False)
    first = model.imagine(video, 3, 2, sample=False)
    rest = model.imagine_from(first.state_at(-1), 3, sample=False)
    for attribute in NAMES:
        parts = torch.cat([getattr(first, attribute), getattr(rest, attribute)], dim=2)
        torch.testing.assert_close(parts, getattr(whole, attribute), atol=1e-4, rtol=1e-3)


@EACH
def test_imagining_is_inferring_and_imagining_from_the_last_state(name: str) -> None:
    model, video = setting(name, 2, 4)
    a = model.imagine(video, 3, 2, futures=3, generator=generator(4))
    state = model.infer(video[:, :3], discover="first").state_at(-1)
    b = model.imagine_from(state, 2, futures=3, generator=generator(4))
    for attribute in NAMES:
        assert torch.equal(getattr(a, attribute), getattr(b, attribute)), attribute


@FINDERS
def test_objects_have_no_order_and_empty_slots_no_effect_in_imagination(name: str) -> None:
    model, many = MODELS[name](), MODELS[name](num_objects=5)
    many.load_state_dict(model.state_dict())
    scene = model.infer(tiny.video(2, 3)).state_at(-1)
    objects, order = scene.objects, [2, 0, 1]
    flat = pad(objects.flat()[:, order], (0, 0, 0, 2))
    ids = pad(objects.id[:, order], (0, 2), value=-1)
    more = replace(scene, objects=objects.with_flat(flat, ids))
    a = model.imagine_from(scene, 4, sample=False)
    b = many.imagine_from(more, 4, sample=False)
    torch.testing.assert_close(a.reconstruction, b.reconstruction, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(a.xy[..., order, :], b.xy[..., :3, :], atol=1e-5, rtol=1e-4)


@EACH
def test_futures_differ_where_they_are_sampled_and_only_there(name: str) -> None:
    model, video = setting(name, 2, 3)
    sampled = model.imagine(video, 3, 3, futures=3)
    assert (sampled.xy[:, 0] - sampled.xy[:, 1]).abs().max() > 1e-3
    mean = model.imagine(video, 3, 3, futures=3, sample=False)
    for future in (1, 2):
        torch.testing.assert_close(mean.xy[:, 0], mean.xy[:, future], atol=1e-6, rtol=1e-5)
    again = model.imagine(video, 3, 3, futures=3, sample=False)
    assert torch.equal(mean.reconstruction, again.reconstruction)


@EACH
def test_the_same_seed_gives_the_same_futures(name: str) -> None:
    model, video = setting(name, 2, 3)
    a, b, c = (model.imagine(video, 3, 3, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(a.reconstruction, b.reconstruction)
    assert not torch.equal(a.xy, c.xy)
    assert torch.equal(*(model.imagine(video, 3, 3).xy for _ in range(2)))


@EACH
def test_pictures_are_drawn_only_if_asked_for(name: str) -> None:
    model, video = setting(name, 1, 2)
    drawn = model.imagine(video, 2, 2, generator=generator(1))
    plain = model.imagine(video, 2, 2, generator=generator(1), render=False)
    assert torch.equal(plain.xy, drawn.xy)
    for track in (plain, plain.past, model.infer(video, render=False)):
        assert track.reconstruction is None
        assert track.background is None


@EACH
@pytest.mark.parametrize(("batch", "time"), [(1, 1), (3, 2), (1, 3)])
def test_any_batch_and_any_number_of_frames(name: str, batch: int, time: int) -> None:
    model, video = setting(name, batch, time)
    track = model.infer(video)
    assert track.reconstruction.shape == video.shape
    assert track.xy.shape == (batch, time, 3, 2)
    assert len(track.states) == time
    future = model.imagine(video, time, 2, futures=2)
    assert future.reconstruction.shape == (batch, 2, 2, *video.shape[2:])
    assert torch.isfinite(future.xy).all()
    if time > 2 or "STOVE" not in name:  # which asks for three frames
        assert torch.isfinite(loss(model, video).total)


# -- what is refused


@EACH
def test_what_cannot_be_imagined_is_refused_in_a_sentence(name: str) -> None:
    model, video = setting(name, 1, 3)
    for steps, futures in ((0, 1), (1, 0)):
        with pytest.raises(UserError, match="steps and futures must be at least 1"):
            model.imagine(video, 1, steps, futures=futures)
    for given in (0, -1, 4):
        with pytest.raises(UserError, match="given must be from 1 to 3, the number of frames"):
            model.imagine(video, given, 2)
    with pytest.raises(UserError, match="there is no state at frame 7 of 3"):
        model.infer(video).state_at(7)
    with pytest.raises(UserError, match=r"expects videos of shape \(batch, time, 3, "):
        model.infer(video[..., :8])


@EACH
def test_only_single_precision_is_accepted(name: str) -> None:
    model = MODELS[name]().half()
    with pytest.raises(UserError, match=r"float16.*model\.float\(\)"):
        model.infer(tiny.video(1, 2, model.image_size))
    assert len(model.float().infer(tiny.video(1, 2, model.image_size))) == 1


@EACH
def test_only_videos_of_a_state_continue_from_it(name: str) -> None:
    model, video = setting(name, 2, 3)
    if not model.continues:
        with pytest.raises(UserError, match="cannot continue a video"):
            list(model.infer_chunks([video, video]))
        return
    state = model.infer(video).state_at(-1)
    with pytest.raises(UserError, match="the state is of 2 videos, but got 1 video"):
        model.infer_after(state, video[:1])


@EACH
def test_actions_are_refused_by_a_model_that_takes_none(name: str) -> None:
    model, video = setting(name, 1, 3)
    actions = torch.zeros(1, 4, 2)
    with pytest.raises(UserError, match="this model does not use actions"):
        model.imagine(video, 2, 2, actions=actions)
    state = model.infer(video).state_at(-1)
    for plans in (actions, actions[:, None]):
        with pytest.raises(UserError, match="this model does not use actions"):
            model.imagine_from(state, 2, actions=plans)


def entering(after: int) -> tuple[Episodes, Tensor]:
    """Three balls, and their video without the first one in its first frames."""
    episodes = next(gswm.world("interaction").episodes(seed=7, n=3))
    truth, video = episodes.truth, episodes.video.clone()
    assert truth is not None
    middle = torch.arange(video.shape[-1]) + 0.5
    for e, t in product(range(len(video)), range(after)):
        x, y = truth.positions[e, t, 0]
        near = (middle - x) ** 2 + (middle[:, None] - y) ** 2 < (truth.sizes[e, t, 0] + 1) ** 2
        video[e, t][:, near] = 0
    return episodes, video


def test_an_object_that_enters_while_frames_are_given_is_imagined_if_it_is_looked_for() -> None:
    model, (episodes, video) = gswm.load("interaction"), entering(after=4)
    assert episodes.truth is not None
    paper = model.imagine(video, 10, 6, sample=False, render=False)
    always = model.imagine(video, 10, 6, sample=False, render=False, discover="always")
    assert paper.present.sum(dim=-1).unique().tolist() == [2]
    assert always.present.sum(dim=-1).unique().tolist() == [3]
    pixels = (always.xy[:, 0] + 1) / 2 * video.shape[-1]
    there = episodes.truth.positions[:, 10:16, :1].float()
    nearest = (pixels - there).norm(dim=-1).masked_fill(~always.present[:, 0], torch.inf).amin(-1)
    assert nearest[:, :3].max() < 1  # of a ball's radius of 8 pixels
