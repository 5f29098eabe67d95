"""Stills: frames stored in a result, because numbers do not suffice to draw them again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from gswm.data.episode import Episodes
from gswm.data.worlds.balls import INTERACTION
from gswm.eval.baselines import Baseline
from gswm.eval.evaluate import Seen, whole
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.stills import STEPS, as_text, from_text, stills
from gswm.models.base import as_float
from gswm.models.track import Track


def balls(n: int = 2, frames: int = 40) -> Episodes:
    return next(replace(INTERACTION, num_frames=frames).episodes(3, n))


def seen(episodes: Episodes, given: int = 10) -> tuple[Boxes, Tensor]:
    """A perfect prediction."""
    steps = episodes.video.shape[1] - given
    track = Baseline("simulator").imagine(episodes, given, steps)
    return whole(track), as_float(episodes.video[:, given:])


def test_frames_come_back_as_they_were() -> None:
    frames = balls(1).video[0, :5]
    again = from_text(as_text(frames))
    assert again.shape == (5, 64, 64, 3)
    assert np.abs(again - frames.permute(0, 2, 3, 1).numpy().astype(int)).max() <= 8


def test_true_and_imagined_are_of_the_same_steps() -> None:
    episodes = balls()
    boxes, drawn = seen(episodes)
    made = stills(episodes, boxes, drawn, given=10)
    assert len(made) == 2
    for number, each in enumerate(made):
        assert each["steps"] == [1, 5, 10, 15, 20]
        assert each["true"] == each["imagined"]
        assert each["true_boxes"] == each["boxes"]
        frames = from_text(each["true"])
        for step, frame in zip(each["steps"], frames, strict=True):
            true = episodes.video[number, 9 + step].permute(1, 2, 0).numpy()
            assert np.abs(frame - true.astype(int)).max() <= 8
    assert max(STEPS) <= 90


def test_a_box_is_where_the_object_is() -> None:
    episodes = balls(1)
    assert episodes.truth is not None
    (made,) = stills(episodes, *seen(episodes), given=10)
    for step, boxes in zip(made["steps"], made["true_boxes"], strict=True):
        for number, x, y, width, height in boxes:
            at = episodes.truth.positions[0, 9 + step, number - 1] / 64
            assert (x, y) == pytest.approx(at.tolist(), abs=1e-4)
            assert width == height == 0.25


def test_an_imagined_object_goes_by_the_id_of_the_true_one_it_stands_for() -> None:
    episodes = balls(1)
    boxes, drawn = seen(episodes)
    names = torch.tensor([7, 0, 3])
    order = torch.tensor([2, 0, 1])
    mixed = Boxes(boxes.xy, boxes.hw, names.expand_as(boxes.id), boxes.there)
    mixed = Boxes(*(v[:, :, order] for v in (mixed.xy, mixed.hw, mixed.id, mixed.there)))
    (made,) = stills(episodes, mixed, drawn, given=10)
    for true, imagined in zip(made["true_boxes"], made["boxes"], strict=True):
        assert sorted(imagined) == sorted(true)


def test_an_object_that_stands_for_none_has_a_number_of_its_own() -> None:
    episodes = balls(1)
    boxes, drawn = seen(episodes)
    xy, hw = (values.repeat(1, 1, 2, 1) for values in (boxes.xy, boxes.hw))
    twice = Boxes(xy, hw, torch.arange(6).expand(1, 40, 6), boxes.there.repeat(1, 1, 2))
    (made,) = stills(episodes, twice, drawn, given=10)
    for imagined in made["boxes"]:
        numbers = [box[0] for box in imagined]
        assert len(set(numbers)) == 6
        assert {1, 2, 3} < set(numbers)


def test_an_example_has_stills_of_its_first_future_where_frames_were_drawn() -> None:
    episodes = balls(2)
    track = Baseline("simulator").imagine(episodes, 10, 30)
    drawn = as_float(episodes.video[:, 10:])

    def futures(values: Tensor, other: Tensor) -> Tensor:
        return torch.stack([values, other], dim=1)

    both = {n: getattr(track, n).repeat_interleave(2, 1) for n in ("xy", "hw", "depth", "pres")}
    both |= {"id": track.id.repeat_interleave(2, 1)}
    two: Track = replace(track, **both, reconstruction=futures(drawn, 0 * drawn))
    shown = Seen(two, whole(two), None).examples(episodes, 10, first=0)
    alone = stills(episodes, whole(track), drawn, given=10)
    assert [example["stills"] for example in shown] == alone
    plain = replace(two, reconstruction=None)
    assert all("stills" not in e for e in Seen(plain, whole(plain), None).examples(episodes, 10, 0))
    assert len(json.dumps(alone)) < 20_000
