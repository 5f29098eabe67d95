"""The world of digits that enter and leave."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import concatenate
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.digits import NUM_FRAMES, SHOWN, VISITS, Digits, beyond, plan
from gswm.data.worlds.glyphs import EXTENT, SEGMENTS, draw_ink, shapes, square, write

SEED, NUMBER = 5, 24


def some(world: Digits | None = None, number: int = NUMBER) -> Episodes:
    return concatenate(list((world or Digits()).episodes(SEED, number)))


def truth_of(episodes: Episodes) -> Truth:
    assert episodes.truth is not None
    return episodes.truth


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return some()


# -- glyphs


def test_every_digit_is_written_in_its_box_and_no_two_are_alike() -> None:
    points = shapes()
    assert points.shape == (10, SEGMENTS, 2, 2)
    assert points.abs().amax(dim=(1, 2, 3)).tolist() == pytest.approx([1] * 10, abs=0.03)
    dice = Dice(0, 0, 1, 0)
    glyphs = write(dice, torch.arange(10)[None])
    ink = draw_ink(type(glyphs)(*(x[0] for x in vars(glyphs).values())), 64)
    apart = (ink[:, None] - ink).square().sum(dim=(2, 3)) + 1e3 * torch.eye(10)
    assert apart.min() > 20


@given(st.integers(0, 2**31))
def test_ink_is_near_the_strokes_and_fills_its_box(seed: int) -> None:
    """Against the distance of each pixel to many points of the strokes."""
    glyphs = write(Dice(seed, 0, 1, 0), torch.tensor([[seed % 10]]))
    glyphs = type(glyphs)(*(x[0] for x in vars(glyphs).values()))
    ink = draw_ink(glyphs, 64)[0]
    side = len(ink)
    at = (torch.arange(side) + 0.5 - side / 2) / 64
    y, x = torch.meshgrid(at, at, indexing="ij")
    ends = glyphs.segments[0].float()
    share = torch.linspace(0, 1, 40)[:, None]
    points = torch.cat([a + share * (b - a) for a, b in ends])
    apart = (torch.stack([x, y], dim=-1)[:, :, None] - points).norm(dim=-1).amin(dim=-1)
    want = ((glyphs.thickness[0].float() / 2 - apart) * 64 + 0.5).clamp(0, 1)
    torch.testing.assert_close(ink, want, atol=0.02, rtol=0)
    rows, columns = (ink.amax(dim=d).gt(0.5).nonzero()[:, 0] for d in (1, 0))
    size = torch.stack([rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1])
    assert (size - glyphs.hw[0] * 64).abs().max() < 2.1
    assert glyphs.hw.max() < EXTENT
    assert square(64) > glyphs.hw.max() * 64


# -- episodes


def test_the_seed_decides_and_nothing_else(episodes: Episodes) -> None:
    assert torch.equal(some().video, episodes.video)
    fewer = concatenate(list(Digits().episodes(SEED, 5, memory=8 << 20, first=3)))
    assert torch.equal(fewer.video, episodes.video[3:8])
    other = next(Digits().episodes(SEED + 1, 1))
    assert not torch.equal(other.video, episodes.video[:1])


def test_there_are_0_to_2_digits_that_enter_and_leave(episodes: Episodes) -> None:
    truth = truth_of(episodes)
    number = truth.present.sum(dim=-1)
    share = torch.bincount(number.flatten()).double() / number.numel()
    assert len(share) == 3
    assert share.min() > 0.1
    steps = truth.present.long().diff(dim=1)
    assert (steps > 0).sum() > NUMBER / 2
    assert (steps < 0).sum() > NUMBER / 2
    assert truth.present.shape == (NUMBER, NUM_FRAMES, 2 * VISITS)


def test_a_digit_keeps_its_slot_and_its_box(episodes: Episodes) -> None:
    truth = truth_of(episodes)
    here = truth.ids > 0
    assert torch.equal(truth.ids, (torch.arange(6) + 1) * here)
    changes = here.long().diff(dim=1).abs().sum(dim=1)
    assert changes.max() <= 2  # it comes once, and goes once
    assert truth.hw is not None
    both = here[:, 1:] & here[:, :-1]
    assert truth.hw.diff(dim=1)[both].abs().max() == 0


def test_digits_move_with_a_constant_acceleration(episodes: Episodes) -> None:
    truth = truth_of(episodes)
    here = truth.ids > 0
    thrice = here[:, 2:] & here[:, 1:-1] & here[:, :-2]
    velocity = truth.positions.diff(dim=1)
    torch.testing.assert_close(
        truth.velocities[:, :-1][here[:, 1:] & here[:, :-1]], velocity[here[:, 1:] & here[:, :-1]]
    )
    acceleration = velocity.diff(dim=1)
    again = thrice[:, 1:] & thrice[:, :-1]
    assert acceleration.diff(dim=1)[again].abs().max() < 1e-9
    speed = truth.velocities.norm(dim=-1)[truth.present]
    assert 1 < speed.mean() < 5


def test_a_digit_is_present_where_enough_of_its_ink_is_in_the_frame() -> None:
    """Against the ink of the frame, in frames with one digit, and its ink when it is whole."""
    episodes = some(Digits(lanes=1))
    truth, ink = truth_of(episodes), episodes.video[:, :, 0].double().sum(dim=(2, 3))
    assert truth.visibility is not None
    slots = 0
    for episode, slot in (truth.visibility > 0.999).any(dim=1).nonzero().tolist():
        visibility = truth.visibility[episode, :, slot]
        here = truth.ids[episode, :, slot] > 0
        whole = ink[episode][visibility > 0.999].mean()
        assert (visibility[here] - ink[episode][here] / whole).abs().max() < 0.02
        assert not visibility[~here].any()
        slots += 1
    assert slots >= NUMBER
    assert torch.equal(truth.present, truth.visibility >= SHOWN)
    entering = (truth.visibility > 0) & ~truth.present
    assert entering.any()


def test_ink_is_where_the_digits_are(episodes: Episodes) -> None:
    """All of it in boxes, each with as much as its digit has; frames without digits are black."""
    truth, gray = truth_of(episodes), episodes.video[:, :, 0].double() / 255
    assert torch.equal(episodes.video[:, :, 0], episodes.video[:, :, 2])
    assert truth.hw is not None
    pixel = torch.arange(64) + 0.5

    def within(axis: int) -> Tensor:
        half = truth.hw[..., 1 - axis, None] / 2 + 1.5  # type: ignore[index]
        return (pixel - truth.positions[..., axis, None]).abs() <= half

    boxes = within(1)[..., :, None] & within(0)[..., None, :] & (truth.ids > 0)[..., None, None]
    assert gray[~boxes.any(dim=2)].max() == 0
    nobody = (truth.ids == 0).all(dim=-1)
    assert gray[nobody].max() == 0
    whole = (truth.visibility > 0.999).sum(dim=-1) == 1
    alone = whole & ((truth.ids > 0).sum(dim=-1) == 1)
    ink = gray.sum(dim=(2, 3))
    for episode in range(NUMBER):
        for slot in range(6):
            frames = alone[episode] & (truth.visibility[episode, :, slot] > 0.999)  # type: ignore[index]
            if frames.any():
                assert ink[episode][frames].std(correction=0) < 0.02 * ink[episode][frames].mean()


def test_ink_that_overlaps_adds_up_to_white(episodes: Episodes) -> None:
    assert episodes.video.max() == 255
    one = Digits(lanes=1)
    assert one.num_objects == VISITS
    assert truth_of(some(one)).present.sum(dim=-1).max() == 1


@given(st.integers(0, 3), st.floats(0.2, 0.8))
def test_a_digit_begins_just_outside(side: int, along: float) -> None:
    half = torch.tensor([0.1, 0.2]).double()
    x, y = beyond(torch.tensor(side), torch.tensor(along).double(), half).tolist()
    want = [(-0.1, along), (1.1, along), (along, -0.2), (along, 1.2)][side]
    assert (x, y) == pytest.approx(want)


def test_digits_of_a_lane_follow_each_other() -> None:
    visits = plan(0, 0, 50, 2)
    ends = visits.start + visits.duration
    assert (visits.start[..., 1:] > ends[..., :-1]).all()
    assert (visits.start[..., 0] <= 0).all()
    assert (visits.start[..., -1] + visits.duration[..., -1] + 4 > NUM_FRAMES).all()
    assert ((visits.path[..., 0, :] < 0) | (visits.path[..., 0, :] > 1)).any(dim=-1).all()


@pytest.mark.parametrize(
    ("changes", "said"), [({"lanes": 0}, "1 to 8 lanes"), ({"image_size": 8}, "no frames of 8")]
)
def test_settings_that_make_no_sense_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        replace(Digits(), **changes)
