"""Examples in results: numbers from which an episode can be drawn again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gswm.data.episode import Episodes
from gswm.data.worlds.balls import INTERACTION
from gswm.data.worlds.registry import world
from gswm.eval.baselines import Baseline
from gswm.eval.evaluate import finite, whole
from gswm.eval.examples import EPISODES, STRIP, examples
from gswm.eval.metrics.boxes import Boxes


def balls(n: int = 2, frames: int = 20) -> Episodes:
    return next(replace(INTERACTION, num_frames=frames).episodes(3, n))


def test_objects_are_followed_whatever_their_slots() -> None:
    episodes = balls()
    track = Baseline("simulator").imagine(episodes, 10, 10)
    order = torch.tensor([2, 0, 1])
    mixed = {name: getattr(track, name)[..., order, :] for name in ("xy", "hw")}
    mixed |= {name: getattr(track, name)[..., order] for name in ("depth", "pres", "id")}
    shown = examples(episodes, whole(replace(track, **mixed)), None, 10, 1)
    assert episodes.truth is not None
    for example, true in zip(shown, episodes.truth.positions / 64, strict=True):
        assert np.allclose(example["true"], true, atol=1e-4)
        assert np.allclose(example["futures"], true[None, 10:], atol=1e-4)


def test_an_object_that_was_not_found_has_no_way() -> None:
    episodes = balls()
    track = Baseline("stay").imagine(episodes, 10, 10)
    assert track.past is not None
    gone = replace(track.past, pres=track.past.pres.clone())
    gone.pres[:, :, 1] = 0
    lost = replace(track, pres=track.pres.clone(), past=gone)
    lost.pres[..., 1] = 0
    shown = finite(examples(episodes, whole(lost), None, 10, 1))
    assert all(step[1] == [None, None] for step in shown[0]["futures"][0])
    assert all(None not in step[0] for step in shown[0]["futures"][0])


def test_futures_are_those_of_their_episode() -> None:
    episodes = balls(3)
    track = Baseline("stay").imagine(episodes, 10, 10)
    many = {name: getattr(track, name).repeat_interleave(4, 1) for name in ("xy", "hw", "depth")}
    many |= {name: getattr(track, name).repeat_interleave(4, 1) for name in ("pres", "id")}
    many["reconstruction"] = None
    shown = examples(episodes[:2], whole(replace(track, **many)), None, 10, 4, first=5)
    assert [example["episode"] for example in shown] == [5, 6]
    assert episodes.truth is not None
    for example, true in zip(shown, episodes.truth.positions / 64, strict=False):
        assert np.shape(example["futures"]) == (4, 10, 3, 2)
        assert np.allclose(example["futures"], true[9], atol=1e-4)


def test_tracked_boxes_are_of_the_first_and_the_last_frame_and_some_between() -> None:
    episodes = balls(1, 40)
    assert episodes.truth is not None
    true = Boxes.of_truth(episodes.truth, 64)
    track = Baseline("stay").imagine(episodes, 10, 30)
    strip = examples(episodes, whole(track), true, 10, 1)[0]["tracked"]
    assert len(strip) == STRIP
    assert (strip[0]["frame"], strip[-1]["frame"]) == (0, 39)
    for part in strip:
        for number, x, y, width, height in part["boxes"]:
            at = episodes.truth.positions[0, part["frame"], number - 1] / 64
            assert (x, y) == pytest.approx(at.tolist(), abs=1e-4)
            assert width == height == 0.25


def test_an_example_is_small_and_plain() -> None:
    episodes = next(world("maze").episodes(2, EPISODES))
    shown = examples(episodes, whole(Baseline("stay").imagine(episodes, 5, 94)), None, 5, 1)
    assert len(json.dumps(finite(shown))) < 60_000
    assert np.array(shown[0]["corridor"]).shape == (7, 7)
    assert all(color[0] == "#" and len(color) == 7 for color in shown[0]["colors"])
    assert len(shown[0]["colors"]) == len(shown[0]["sizes"]) == len(shown[0]["true"][0])
