"""Augmented videos: invariants of random augmentations."""

from dataclasses import replace

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.batches.augment import FARTHEST, AugmentNoise, augmented, moved
from gswm.data.labels import UNCLEAR, Labels
from gswm.models.gswm.gswm import GSWM

SIZE = 32


def scene(batch: int = 2, time: int = 3) -> tuple[Tensor, Tensor]:
    """A background of patches, and a bright square that moves over it."""
    few = 0.3 + 0.3 * torch.rand(batch, 3, 4, 4, generator=tiny.generator(1))
    behind = torch.nn.functional.interpolate(few, size=SIZE)
    video = behind[:, None].repeat(1, time, 1, 1, 1)
    for t in range(time):
        video[:, t, :, 10:18, 8 + 2 * t : 14 + 2 * t] = 0.9
    return video, behind


def plain(batch: int = 2) -> AugmentNoise:
    """No change at all."""
    return AugmentNoise(
        torch.zeros(batch, dtype=torch.bool),
        torch.zeros(batch, 2),
        torch.eye(3).repeat(batch, 1, 1),
    )


def test_without_a_change_the_video_stays() -> None:
    video, behind = scene()
    same, ground = augmented(video, behind, plain())
    torch.testing.assert_close(same, video)
    assert torch.equal(ground, behind)


def test_mirrored_twice_is_not_mirrored() -> None:
    video, behind = scene()
    noise = replace(plain(), mirrored=torch.ones(2, dtype=torch.bool))
    once = augmented(video, behind, noise)
    torch.testing.assert_close(once[0], video.flip(-1))
    torch.testing.assert_close(augmented(*once, noise)[0], video)


def test_a_shift_moves_objects_and_background_alike() -> None:
    video, behind = scene()
    noise = replace(plain(), shift=torch.tensor([[2 / SIZE, -3 / SIZE], [0.0, 0.0]]))
    moved, ground = augmented(video, behind, noise)
    torch.testing.assert_close(moved[0, :, :, 2:, :-3], video[0, :, :, :-2, 3:])
    torch.testing.assert_close(ground[0, :, 2:, :-3], behind[0, :, :-2, 3:])
    torch.testing.assert_close(moved[1], video[1])


def test_colors_change_where_something_differs_from_the_background_alone() -> None:
    video, behind = scene()
    noise = replace(plain(), mix=-torch.eye(3).repeat(2, 1, 1))
    dark, ground = augmented(video, behind, noise)
    assert torch.equal(ground, behind)
    square = (video - behind[:, None]).abs() > 0.1
    assert (dark < video)[square].all()
    torch.testing.assert_close(dark[~square], video[~square], atol=0.02, rtol=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_what_is_drawn_permutes_channels_within_bounds(seed: int) -> None:
    noise = AugmentNoise.draw(8, tiny.generator(seed))
    assert noise.shift.abs().max() <= FARTHEST
    there = noise.mix != 0
    assert (there.sum(dim=1) == 1).all()
    assert (there.sum(dim=2) == 1).all()
    video, behind = scene(8)
    frames, ground = augmented(video, behind, noise)
    for pixels in (frames, ground):
        assert pixels.min() >= 0
        assert pixels.max() <= 1
    again = AugmentNoise.draw(8, tiny.generator(seed))
    assert torch.equal(noise.mix, again.mix)


def test_only_videos_with_a_background_are_augmented() -> None:
    with pytest.raises(UserError, match="static"):
        GSWM(replace(tiny.config("two-layer"), augment=True))
    model = tiny.lively("clips", image_size=64, augment=True)
    stage = model.cfg.schedule.steady(2).stage(0)
    assert model.noise(2, stage, tiny.generator()).augment is not None


def test_boxes_go_where_their_pixels_go() -> None:
    video, behind = scene(batch=4)
    noise = replace(
        plain(4),
        mirrored=torch.tensor([False, True, False, True]),
        shift=torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.125, -0.0625], [0.125, -0.0625]]),
    )
    there = (video - behind[:, None]).abs().amax(dim=2) > 0
    boxes = moved(boxes_around(there), noise, SIZE)
    other, ground = augmented(video, behind, noise)
    want = boxes_around((other - ground[:, None]).abs().amax(dim=2) > 0.05)
    assert torch.allclose(boxes.xy, want.xy, atol=1e-5)
    assert torch.equal(boxes.hw, want.hw)
    assert boxes.present.all()


def test_boxes_are_cut_at_the_border_and_become_unclear_beyond_it() -> None:
    there = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.bool)
    there[..., : SIZE // 4, : SIZE // 4] = True
    for up, present in ((0.125, True), (0.25, False)):
        away = replace(plain(1), shift=torch.tensor([[-up, 0.0]]))
        boxes = moved(boxes_around(there), away, SIZE)
        assert boxes.hw[0, 0, 0].tolist() == pytest.approx([0.25 - up, 0.25])
        assert boxes.present.item() is present
        assert boxes.visibility.item() == pytest.approx(1.0 if present else UNCLEAR)


def boxes_around(masks: Tensor) -> Labels:
    """One box a frame."""
    edges = []
    for dim in (-2, -1):  # columns, then rows
        seen = masks.any(dim=dim).float()
        first, last = seen.argmax(dim=-1), SIZE - seen.flip(-1).argmax(dim=-1)
        edges.append((first / SIZE, last / SIZE))
    xy = torch.stack([a + b - 1 for a, b in edges], dim=-1)[:, :, None]
    hw = torch.stack([b - a for a, b in reversed(edges)], dim=-1)[:, :, None]
    ones = torch.ones(*masks.shape[:2], 1)
    return Labels(ones > 0, ones, xy, hw)
