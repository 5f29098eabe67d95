"""Clips: random objects in front of still backgrounds, and their ground truth."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.records import concatenate, map_tensors, tensors
from gswm.data.batches.loader import Pool, open_loader
from gswm.data.episode import Episodes, Truth
from gswm.data.storage import hdf5
from gswm.data.storage.layouts import to_arrays
from gswm.data.worlds.base import MEMORY
from gswm.data.worlds.clips.painting import paint
from gswm.data.worlds.clips.plan import Plan, make_plan
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.showing import items_of, placed_objects
from gswm.data.worlds.clips.sprites import Sprites, make_sprites
from gswm.data.worlds.clips.themes import KINDS
from gswm.data.worlds.clips.world import CLIPS, CLIPS_64, Clips
from gswm.data.worlds.registry import world
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.tracking import tracked

SMALL = Clips(image_size=64, settings=ClipSettings(num_frames=6))
CLEAR = replace(
    SMALL,
    settings=ClipSettings(
        num_frames=6, shadows=0.0, occluders=0.0, camouflaged=0.0, transparent=0.0
    ).without_camera(),
)
CPU = torch.device("cpu")


def made(of: Clips, n: int = 8, seed: int = 5, memory: int = MEMORY, first: int = 0) -> Episodes:
    return concatenate(list(of.episodes(seed, n, memory=memory, first=first)))


def truth_of(episodes: Episodes) -> Truth:
    assert episodes.truth is not None
    return episodes.truth


def assert_same(one: Episodes, other: Episodes) -> None:
    for ours, theirs in zip(tensors(one), tensors(other), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.slow
def test_a_seed_gives_the_same_bits_however_episodes_are_chunked() -> None:
    whole = made(SMALL, 11)
    assert_same(whole, made(SMALL, 11))
    assert_same(whole, made(SMALL, 11, memory=1))
    assert_same(whole[7:], made(SMALL, 4, first=7))
    endless = SMALL.episodes(5, None)
    assert_same(whole[:8], concatenate([next(endless)])[:8])
    assert not torch.equal(whole.video[:8], made(SMALL, 8, seed=6).video)


def test_the_size_of_frames_changes_the_scale_alone() -> None:
    small, large = (truth_of(made(SMALL.resized(size), 4)) for size in (48, 96))
    for name in ("positions", "velocities", "sizes", "hw"):
        torch.testing.assert_close(2 * getattr(small, name), getattr(large, name), msg=name)
    assert torch.equal(small.ids, large.ids)
    assert torch.equal(small.order, large.order)


def outlined(truth: Truth, margin: float, side: int) -> Tensor:
    """A mask of the pixels in the box of any object, present or not."""
    middle = torch.arange(side) + 0.5
    far = (middle - truth.positions[..., None]).abs()
    x, y = far.unbind(-2)
    h, w = truth.boxes_hw().unbind(-1)
    exists = (truth.ids > 0)[..., None]
    inside_x = (x <= w[..., None] / 2 + margin) & exists
    inside_y = (y <= h[..., None] / 2 + margin) & exists
    return (inside_y[..., None] & inside_x[..., None, :]).any(2)


def test_frames_show_the_background_where_no_object_is() -> None:
    episodes = made(CLEAR, 16)
    assert episodes.background is not None
    outside = ~outlined(truth_of(episodes), 3.0, 64)[:, :, None].expand_as(episodes.video)
    still = episodes.background[:, None].expand_as(episodes.video)
    assert outside.float().mean() > 0.3
    assert torch.equal(episodes.video[outside], still[outside])


def test_every_visible_object_changes_the_picture_in_its_box() -> None:
    episodes = made(CLEAR, 16)
    truth = truth_of(episodes)
    assert episodes.background is not None
    assert truth.visibility is not None
    change = (episodes.video.float() - episodes.background[:, None].float()).abs().amax(2)
    number = 0
    for e, t, k in (truth.present & (truth.visibility > 0.6)).nonzero().tolist():
        (x, y), (h, w) = truth.positions[e, t, k].tolist(), truth.boxes_hw()[e, t, k].tolist()
        rows = slice(max(0, int(y - h / 2)), int(y + h / 2) + 1)
        columns = slice(max(0, int(x - w / 2)), int(x + w / 2) + 1)
        assert change[e, t, rows, columns].amax() > 8
        number += 1
    assert number > 100


def test_boxes_are_tight_around_what_is_drawn() -> None:
    """An object alone, painted by hand: its opaque pixels reach to the sides of its box."""
    settings = replace(CLEAR.settings, objects=(1, 1), clutter=0)
    plan = make_plan(settings, 3, 0, 24)
    sprites, painted = opaque(plan, 128)
    actors = placed_objects(plan, sprites, 128)
    number = 0
    for e in range(len(plan)):
        for t in range(settings.num_frames):
            half = actors.wh[e, t, 0] / 2
            low, high = actors.center[e, t, 0] - half, actors.center[e, t, 0] + half
            if low.amin() < 0 or high.amax() > 128 or half.amin() < 3:
                continue
            rows, columns = (painted[e, t] > 0.5).nonzero().unbind(1)
            found = torch.stack([columns.amin(), rows.amin(), columns.amax() + 1, rows.amax() + 1])
            assert (found - torch.cat([low, high])).abs().amax() < 1.8
            number += 1
    assert number > 40


def opaque(plan: Plan, side: int) -> tuple[Sprites, Tensor]:
    """Sprites, and the opacity of all objects of each frame."""
    looks = map_tensors(lambda values: values[plan.motion.exists], plan.looks)
    sprites = make_sprites(looks, CPU)
    items, where = items_of(plan, placed_objects(plan, sprites, side))
    frames = where.shape[0] * where.shape[1]
    through = paint(items, sprites, frames, side).through
    return sprites, 1 - through.unflatten(0, where.shape[:2])


def test_velocities_are_the_steps_to_the_next_frame() -> None:
    truth = truth_of(made(SMALL, 16))
    torch.testing.assert_close(truth.positions.diff(dim=1), truth.velocities[:, :-1])
    assert (truth.velocities[truth.present].norm(dim=-1) > 0.3).float().mean() > 0.2


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 4))
def test_counts_and_sizes_keep_to_their_ranges(seed: int, low: int, more: int) -> None:
    settings = ClipSettings(num_frames=3, objects=(low, low + more), sizes=(0.05, 0.2))
    motion = make_plan(settings, seed, 0, 8).motion
    count = motion.exists.sum(1)
    assert count.amin() >= low
    assert count.amax() <= low + more
    assert motion.size.amin() >= 0.05
    assert motion.size.amax() <= 0.2


def test_an_object_is_as_long_as_its_size_says() -> None:
    plan = make_plan(ClipSettings(num_frames=4, clutter=0), 2, 0, 16)
    upright = replace(plan.motion, angle=torch.zeros_like(plan.motion.angle))
    upright = replace(upright, phase=torch.zeros_like(upright.phase))
    plan = replace(plan, motion=upright)
    sprites, _ = opaque(plan, 64)
    long = placed_objects(plan, sprites, 64).wh.amax(-1)
    exists = plan.motion.exists[:, None].expand_as(long)
    expected = plan.motion.size[:, None] * plan.motion.scale * 64
    torch.testing.assert_close(long[exists], expected[exists])


def test_clips_are_as_different_as_they_should_be() -> None:
    plan = make_plan(ClipSettings(), 0, 0, 600)
    assert set(plan.looks.kind.flatten().tolist()) == set(range(len(KINDS)))
    assert set(plan.motion.exists.sum(1).tolist()) == set(range(11))
    assert 0.2 < (plan.camera.kappa > 0).float().mean() < 0.5
    for shares in (plan.film.sways, plan.film.step > 0, plan.film.noise[:, 0] > 0):
        assert 0.1 < shares.float().mean() < 0.95
    speed = plan.motion.xy.diff(dim=1).norm(dim=-1)
    inside = ((plan.motion.xy >= 0) & (plan.motion.xy <= 1)).all(-1)
    inside = inside[:, 1:] & inside[:, :-1]
    assert (speed[inside] == 0).any()
    assert 0.05 < speed[inside].amax() < 0.08


def test_objects_enter_leave_hide_each_other_and_turn() -> None:
    truth = truth_of(made(replace(SMALL, settings=ClipSettings(num_frames=16)), 32))
    present, visibility = truth.present, truth.visibility
    assert visibility is not None
    assert (present[:, 1:] & ~present[:, :-1]).sum() > 5
    assert (~present[:, 1:] & present[:, :-1]).sum() > 5
    assert (present & (visibility < 0.3)).sum() > 5
    assert (present & (visibility > 0.95)).float().sum() > 100
    ratio = truth.boxes_hw()[..., 0] / truth.boxes_hw()[..., 1].clamp_min(1e-6)
    assert (ratio.diff(dim=1).abs()[truth.ids[:, 1:] > 0] > 0.05).any()


def test_what_is_out_of_the_frame_is_not_present() -> None:
    truth = truth_of(made(SMALL, 32))
    half = truth.boxes_hw().flip(-1) / 2
    low, high = truth.positions - half, truth.positions + half
    outside = ((high <= 0) | (low >= 64)).any(-1)
    inside = ((low >= 1) & (high <= 63)).all(-1) & (truth.ids > 0)
    assert outside.any()
    assert not (truth.present & outside).any()
    assert truth.present[inside].all()
    assert not truth.present[truth.ids == 0].any()
    assert truth.visibility is not None
    assert truth.visibility[outside].amax() < 0.15  # soft edges reach out of boxes


def test_an_empty_clip_shows_its_background() -> None:
    nothing = replace(CLEAR, settings=replace(CLEAR.settings, objects=(0, 0), clutter=0))
    episodes = made(nothing, 2)
    assert episodes.background is not None
    assert torch.equal(episodes.video, episodes.background[:, None].expand_as(episodes.video))
    assert truth_of(episodes).ids.shape == (2, 6, 0)


def test_the_background_may_be_in_other_light_than_the_frames() -> None:
    settings = replace(CLEAR.settings, objects=(0, 1), own_light=1.0)
    episodes = made(replace(CLEAR, settings=settings), 12)
    assert episodes.background is not None
    levels = episodes.video[:, 0].float().mean((1, 2, 3))
    still = episodes.background.float().mean((1, 2, 3))
    assert ((levels / still - 1).abs() > 0.02).sum() >= 6


def test_ghosts_are_in_the_background_alone() -> None:
    haunted = replace(CLEAR, settings=replace(CLEAR.settings, ghosts=1.0))
    plain, episodes = made(CLEAR, 16), made(haunted, 16)
    assert plain.background is not None
    assert episodes.background is not None
    assert_same(replace(plain, background=None), replace(episodes, background=None))
    ghost = (plain.background.float() - episodes.background.float()).abs().amax(1) > 8
    outside = ~outlined(truth_of(episodes), 3.0, 64)
    assert (ghost[:, None] & outside).any(-1).any(-1).all(1).sum() >= 12
    assert ghost.float().mean() < 0.15
    assert_same(episodes[5:9], made(haunted, 4, first=5))


def test_a_share_of_clips_has_one_to_three_ghosts_like_its_objects() -> None:
    plan = make_plan(ClipSettings(ghosts=0.3), 0, 0, 600)
    number = plan.ghosts.exists.sum(1)
    assert 0.25 < (number > 0).float().mean() < 0.35
    assert set(number.tolist()) == {0, 1, 2, 3}
    objects = plan.motion.exists.any(1, keepdim=True)
    alike = plan.ghosts.looks.numbers[:, :, None] == plan.looks.numbers[:, None]
    alike = (alike.all(-1) & plan.motion.exists[:, None]).any(-1)
    assert alike[objects.expand_as(alike)].all()
    smeared = (plan.ghosts.smear != 0).any(-1)
    assert 0.4 < smeared.float().mean() < 0.6


def test_some_objects_of_the_truth_rest_in_all_frames() -> None:
    """The background does not show them, as `test_every_visible_object...` holds for all."""
    plan = make_plan(ClipSettings(), 0, 0, 300)
    inside = ((plan.motion.xy > 0.1) & (plan.motion.xy < 0.9)).all(-1).all(1) & plan.motion.exists
    rests = (plan.motion.xy.diff(dim=1) == 0).all(-1).all(1)
    assert 0.05 < rests[plan.motion.exists].float().mean() < 0.15
    assert (inside & rests).any(1).float().mean() > 0.1


def test_monochrome_clips_are_grey() -> None:
    settings = replace(SMALL.settings, monochrome=1.0, compression=0.0)
    video = made(replace(SMALL, settings=settings), 8).video
    assert torch.equal(video[:, :, 0], video[:, :, 1])
    assert torch.equal(video[:, :, 0], video[:, :, 2])


def test_files_keep_all_that_is_true(tmp_path: Path) -> None:
    out = tmp_path / "clips.hdf5"
    args = ["data", "make", "clips-64", "--split", "val", "--episodes", "3", "--out", str(out)]
    assert main(args) == 0
    was, now = made(CLIPS_64, 3, CLIPS_64.splits["val"].seed), hdf5.read(out)
    assert hdf5.open_file(out).layout == "clips"
    for field in fields(Truth):
        torch.testing.assert_close(
            *(getattr(truth_of(each), field.name) for each in (now, was)), msg=field.name
        )
    assert now.background is not None
    assert was.background is not None
    assert torch.equal(now.video, was.video)
    assert torch.equal(now.background, was.background)
    drawn = []
    for source, episode in (("clips-64", "1"), (str(out), "1")):
        png = tmp_path / "x.png"
        words = ["--split", "val", "--episode", episode, "--out", str(png), "--force"]
        assert main(["data", "show", source, *words]) == 0
        with Image.open(png) as image:
            drawn.append(np.asarray(image.convert("RGB"))[60:])
    np.testing.assert_array_equal(*drawn)


def test_other_layouts_refuse_clips() -> None:
    with pytest.raises(UserError, match="cannot store the"):
        to_arrays("balls", made(SMALL, 2))


@pytest.mark.parametrize("fresh", [None, Pool(8, 4, 4)])
def test_training_gets_each_window_with_its_background(fresh: Pool | None) -> None:
    loader = open_loader(SMALL, batch=6, length=4, episodes=None if fresh else 8, fresh=fresh)
    batch = next(loader)
    assert batch.video.shape == (6, 4, 3, 64, 64)
    assert batch.background is not None
    assert batch.background.shape == (6, 3, 64, 64)
    apart = (batch.video[:, 0, None].float() - batch.background[None].float()).abs()
    apart = apart.mean((2, 3, 4))
    assert torch.equal(apart.amin(1), apart.diagonal())


def test_tracking_is_measured_on_clips() -> None:
    true = Boxes.of_truth(truth_of(made(SMALL, 8)), 64)
    scores = tracked(true, true).scores()
    assert scores["mota"] == 1
    assert scores["idf1"] == 1


def test_clips_are_known_by_name_in_two_sizes() -> None:
    assert world("clips") is CLIPS
    assert (world("clips").image_size, world("clips-64").image_size) == (128, 64)
    assert CLIPS.resized(96).image_size == 96


@pytest.mark.parametrize("size", [8, 50, 1024])
def test_sizes_that_cannot_be_drawn_are_refused(size: int) -> None:
    with pytest.raises(UserError, match=f"no frames of {size} pixels"):
        CLIPS.resized(size)
