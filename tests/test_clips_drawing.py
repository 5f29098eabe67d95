"""Drawing clips: noise, cameras, overlapping sprites, light and compression."""

from math import cos, pi, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.data.worlds.clips import film
from gswm.data.worlds.clips.camera import Perspective
from gswm.data.worlds.clips.dice import Dice, hashed, octaves, white
from gswm.data.worlds.clips.looks import MOST_PARTS, SKETCHES, Sketch
from gswm.data.worlds.clips.painting import Painted, Placed, cast, groups, paint
from gswm.data.worlds.clips.plan import make_plan
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.showing import items_of, placed_objects
from gswm.data.worlds.clips.sprites import Sprites, make_sprites
from gswm.data.worlds.clips.themes import GROUNDS, KINDS, THEMES

SIDE, FRAMES, EPISODES = 48, 3, 6
CPU = torch.device("cpu")


def naive_hash(key: int) -> int:
    """The hash of one key in Python integers, as a signed 32-bit number."""
    bits = key % 2**32
    bits = (bits ^ bits >> 16) * 0x7FEB352D % 2**32
    bits = (bits ^ bits >> 15) * 0x846CA68B % 2**32
    bits = bits ^ bits >> 16
    return bits - 2**32 if bits >= 2**31 else bits


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_noise_is_hashed_alike_in_every_arithmetic(keys: list[int]) -> None:
    found = hashed(torch.tensor(keys, dtype=torch.int32))
    assert found.tolist() == [naive_hash(key) for key in keys]


def test_noise_is_white() -> None:
    fields = white(torch.tensor([1, 2], dtype=torch.int32), 200, 200)
    for field in (fields[0], fields[1], fields[0, ::2], fields[1, :, 1::2]):
        assert abs(float(field.mean()) - 0.5) < 0.01
        assert abs(float(field.var()) - 1 / 12) < 0.002
    for one, other in ((fields[0], fields[1]), (fields[0, 1:], fields[0, :-1])):
        assert (
            abs(float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1])) < 0.02
        )


def test_octaves_keep_their_strength() -> None:
    keys = torch.arange(12, dtype=torch.int32)
    for slope in (0.3, 0.7, 1.0):
        field = octaves(keys, 1, 64, 64, torch.full((12,), slope))
        assert 0.3 < float(field.std()) < 0.7
        assert abs(float(field.mean())) < 0.1


def test_dice_give_each_episode_numbers_of_its_own() -> None:
    both, second = Dice(3, 0, 2, FRAMES), Dice(3, 1, 1, FRAMES)
    for of in (lambda dice: dice.normal(5), lambda dice: dice.choice(torch.ones(4), 7)):
        assert torch.equal(of(both)[1:], of(second))
    weights = torch.tensor([[0.0, 1.0, 0.0]])
    assert set(second.choice(weights, 100).flatten().tolist()) == {1}


@given(st.floats(0, 1.4), st.floats(-0.4, 0.4), st.floats(0, 1), st.floats(0, 1))
def test_what_a_camera_sees_on_the_ground_is_where_it_is(
    kappa: float, lean: float, x: float, y: float
) -> None:
    camera = Perspective(*(torch.tensor([v], dtype=torch.float64) for v in (kappa, lean)))
    place = torch.tensor([[x, y]], dtype=torch.float64)
    if float(camera.scale(place[:, 1])) < 0.1:
        return
    ground, scale = camera.ground(place)
    again, same = camera.seen(ground)
    torch.testing.assert_close(again, place)
    torch.testing.assert_close(same, scale)


@pytest.mark.parametrize("kind", KINDS)
def test_sketches_fit_in_sprites(kind: str) -> None:
    sketch = Sketch(50)
    SKETCHES[kind](sketch, torch.rand(16, 50, generator=torch.Generator().manual_seed(0)).double())
    assert 1 <= len(sketch.rows) <= MOST_PARTS


def test_themes_name_kinds_and_grounds_that_exist() -> None:
    for theme in THEMES:
        assert set(theme.kinds) <= set(KINDS)
        assert set(theme.grounds) <= set(GROUNDS)


def stage(**settings: object) -> tuple[Placed, Sprites]:
    """All objects of some frames."""
    plan = make_plan(ClipSettings(num_frames=FRAMES, **settings), 4, 0, EPISODES)  # pyright: ignore[reportArgumentType]
    looks = map_tensors(lambda values: values[plan.motion.exists], plan.looks)
    sprites = make_sprites(looks, CPU)
    return items_of(plan, placed_objects(plan, sprites, SIDE))[0], sprites


def painted(items: Placed, sprites: Sprites) -> Painted:
    return paint(items, sprites, FRAMES * EPISODES, SIDE)


def test_objects_are_painted_over_each_other_from_back_to_front() -> None:
    """The same windows, laid over the picture one by one, the last in front."""
    items, sprites = stage(objects=(4, 10), usual_sizes=(0.2, 0.3))
    found = painted(items, sprites)
    color = torch.zeros(FRAMES * EPISODES, 3, SIDE, SIDE)
    through = torch.ones(FRAMES * EPISODES, SIDE, SIDE)
    windows = {}
    for group in groups(items, sprites, SIDE):
        for row, item in enumerate(group.items.tolist()):
            windows[item] = group.corner[row].tolist(), group.side, group.patch[row]
    for item in sorted(windows, key=lambda item: -int(items.rank[item])):
        (x, y), side, patch = windows[item]
        frame = int(items.frame[item])
        left = 1 + patch[3]
        here = (slice(y, y + side), slice(x, x + side))
        color[frame][:, *here] = color[frame][:, *here] * left + patch[:3]
        through[frame][here] *= left
    torch.testing.assert_close(found.color, color)
    torch.testing.assert_close(found.through, through)
    assert (through < 0.5).float().mean() > 0.1


def test_what_is_seen_of_objects_and_background_is_the_whole_picture() -> None:
    items, sprites = stage(objects=(4, 10), usual_sizes=(0.2, 0.3))
    found = painted(items, sprites)
    seen = torch.zeros(FRAMES * EPISODES).double().index_add(0, items.frame, found.seen)
    total = seen + found.through.double().sum((1, 2))
    torch.testing.assert_close(total, torch.full_like(total, SIDE**2), rtol=1e-5, atol=1e-2)
    assert (found.seen <= found.shown + 1e-3).all()


def test_what_is_in_front_hides_objects() -> None:
    items, sprites = stage()
    nothing = torch.zeros(FRAMES * EPISODES, SIDE, SIDE)
    hidden = paint(items, sprites, FRAMES * EPISODES, SIDE, nothing)
    assert not hidden.color.any()
    assert not hidden.seen.any()
    assert torch.equal(hidden.shown, painted(items, sprites).shown)


def test_shadows_darken_the_ground_near_objects_only() -> None:
    items, sprites = stage(objects=(1, 3))
    light = cast(items, torch.full((len(items.frame),), 0.5), sprites, FRAMES * EPISODES, SIDE)
    opacity = 1 - painted(items, sprites).through
    assert light.amin() >= 0.1
    assert light.amax() == 1
    assert float(light[opacity > 0.9].mean()) < 0.75
    assert float(light[opacity == 0].mean()) > 0.9


def test_blur_moves_no_light_elsewhere() -> None:
    items, sprites = stage(objects=(1, 1))
    inside = ((items.xy > 12) & (items.xy < SIDE - 12)).all(-1)
    still = items[inside]
    moving = Placed(**{**vars(still), "smear": torch.full_like(still.smear, 3.0)})
    sharp, blurred = painted(still, sprites), painted(moving, sprites)
    torch.testing.assert_close(sharp.shown, blurred.shown, rtol=0.05, atol=0.3)
    assert not torch.allclose(sharp.through, blurred.through, atol=0.05)


def pictures(number: int = 4, side: int = 16) -> Tensor:
    return torch.rand(number, 3, side, side, generator=torch.Generator().manual_seed(1))


def test_blocks_are_rounded_in_their_cosines() -> None:
    """One gray block, compared with the definition of the cosine transform."""
    block = pictures(1, 8)[:, :1].expand(-1, 3, -1, -1)
    step = 0.05
    found = film.compressed(block, torch.tensor([step]))
    expected = torch.zeros(8, 8)
    for u in range(8):
        for v in range(8):
            scale = (sqrt(0.5) if u == 0 else 1) * (sqrt(0.5) if v == 0 else 1) / 4
            wave = torch.tensor(
                [
                    [
                        scale * cos((2 * y + 1) * u * pi / 16) * cos((2 * x + 1) * v * pi / 16)
                        for x in range(8)
                    ]
                    for y in range(8)
                ]
            )
            unit = step * (1 + 0.5 * (u + v))
            expected += (float((block[0, 0] * wave).sum()) / unit).__round__() * unit * wave
    torch.testing.assert_close(found, expected.expand(1, 3, 8, 8), rtol=0, atol=1e-4)


def test_fine_compression_changes_nothing_and_coarse_compression_much() -> None:
    images = pictures()
    fine, coarse = (film.compressed(images, torch.full((4,), step)) for step in (1e-5, 0.5))
    torch.testing.assert_close(fine, images, rtol=0, atol=1e-3)
    assert (coarse - images).abs().mean() > 0.05


@given(st.floats(0.0, 0.22))
def test_focus_keeps_the_light(focus: float) -> None:
    images = pictures()
    blurred = film.refocused(images, torch.full((4,), focus))
    torch.testing.assert_close(blurred.mean((2, 3)), images.mean((2, 3)))
    assert blurred.var() <= images.var() + 1e-6


def test_grain_is_as_strong_as_it_says() -> None:
    keys = torch.arange(8, dtype=torch.int32)
    noise = film.grain(keys, torch.tensor([[0.03, 0.0]]).expand(8, 2), 64)
    assert abs(float(noise.std()) - 0.03) < 0.001
    assert abs(float(noise.mean())) < 0.001
    assert torch.equal(noise[:, 0], noise[:, 2])
    colored = film.grain(keys, torch.tensor([[0.03, 0.02]]).expand(8, 2), 64)
    assert not torch.equal(colored[:, 0], colored[:, 2])


def test_swaying_parts_move_and_the_rest_stays() -> None:
    plan = make_plan(ClipSettings(sway=1.0), 0, 0, 4).film
    plan = map_tensors(lambda v: v.float() if v.is_floating_point() else v, plan)
    background = pictures(4, 16)
    field = torch.zeros(4, 16, 16)
    field[:, :, 8:] = plan.region.mean(-1)[:, None, None]
    moved = film.swayed(background, field, plan)
    outside = plan.region[:, 0] > 0.01
    same = background[:, None].expand_as(moved)
    assert torch.equal(moved[outside][..., :8], same[outside][..., :8])
    assert not torch.equal(moved[..., 8:], same[..., 8:])


def test_bytes_are_rounded_and_cut_off() -> None:
    values = torch.tensor([-1.0, 0.0, 0.4 / 255, 0.6 / 255, 0.5, 1.0, 2.0]).expand(1, 3, 1, 7)
    assert film.to_bytes(values)[0, 0, 0].tolist() == [0, 0, 0, 1, 128, 255, 255]
