"""Edits of a scene: each changes one thing, and leaves the original unchanged."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import build, config, objects, video

from gswm.core.errors import UserError
from gswm.core.records import map_tensors, repeat
from gswm.models.gswm.context import ContextState
from gswm.models.objects import Extents, LSTMState
from gswm.models.scene import Scene, as_track


def scene() -> Scene:
    """Two videos with objects 0, 1 and 2, and a slot that is empty."""
    all_of = objects(2, 4)
    pres = torch.tensor([0.9, 1.0, 0.8, 0.1])[None, :, None].expand(2, -1, -1)
    ids = torch.tensor([[0, 1, 2, -1], [2, 0, 1, -1]])
    o = replace(all_of.o, pres=pres.clone())
    nothing = LSTMState(torch.zeros(2, 0), torch.zeros(2, 0))
    all_of = replace(all_of, o=o, id=ids, born=torch.tensor([3, 3]))
    return Scene(all_of, ContextState(nothing, nothing), torch.zeros(2, 0))


def test_a_place_in_pixels_is_refused_with_the_units() -> None:
    with pytest.raises(UserError, match=r"\(200.0, 100.0\).* from -1 \(left, top\) to 1"):
        scene().move(2, (200.0, 100.0))
    with pytest.raises(UserError, match="from -1"):
        scene().add(2, (0.0, -2.5))
    scene().move(2, (1.2, -1.2))  # the edge of the frame may cut an object off


def slot(s: Scene, video_number: int, id: int) -> int:
    return s.objects.id[video_number].tolist().index(id)


def same_but(before: Scene, after: Scene, where: list[tuple[int, int]], columns: slice) -> None:
    """Only some columns of some slots differ."""
    changed = (before.objects.flat() != after.objects.flat()).nonzero().tolist()
    allowed = range(*columns.indices(before.objects.flat().shape[-1]))
    assert {(b, k) for b, k, _ in changed} == set(where)
    assert {c for _, _, c in changed} <= set(allowed)


def test_an_object_moves_in_every_video_that_has_it() -> None:
    s = scene()
    after = s.move(id=1, xy=(0.3, -0.1))
    where = [(0, 1), (1, 2)]
    same_but(s, after, where, slice(4, 6))
    for b, k in where:
        torch.testing.assert_close(after.objects.o.xy[b, k], torch.tensor([0.3, -0.1]))
    assert torch.equal(after.objects.id, s.objects.id)


def test_an_object_moves_in_one_video_alone() -> None:
    s = scene()
    same_but(s, s.move(id=1, xy=(0.3, -0.1), of=1), [(1, 2)], slice(4, 6))


def test_what_is_removed_is_not_there_and_has_no_id() -> None:
    s = scene()
    after = s.remove(id=0)
    same_but(s, after, [(0, 0), (1, 1)], slice(0, 1))
    assert after.objects.o.pres[0, 0] == 0
    assert after.objects.id.tolist() == [[-1, 1, 2, -1], [2, -1, 1, -1]]
    with pytest.raises(UserError, match=r"there is no object 0; there are \[1, 2\]"):
        after.move(id=0, xy=(0.0, 0.0))


def test_what_is_added_is_a_copy_elsewhere_with_a_new_id() -> None:
    s = scene()
    after = s.add(copy_of=2, xy=(0.5, 0.25))
    for b in (0, 1):
        source, target = s.objects.flat()[b, slot(s, b, 2)], after.objects.flat()[b, 3]
        same = torch.ones(len(source), dtype=torch.bool)
        same[4:6] = False
        assert torch.equal(source[same], target[same])
        assert torch.equal(after.objects.o.xy[b, 3], torch.tensor([0.5, 0.25]))
        assert after.objects.id[b, 3] == 3
    assert after.objects.born.tolist() == [4, 4]
    assert torch.equal(after.objects.flat()[:, :3], s.objects.flat()[:, :3])
    one = s.add(copy_of=2, xy=(0.5, 0.25), of=0)
    assert one.objects.born.tolist() == [4, 3]
    assert torch.equal(one.objects.flat()[1], s.objects.flat()[1])


def test_there_must_be_room_for_what_is_added() -> None:
    full = scene().add(copy_of=0, xy=(0.0, 0.0))
    with pytest.raises(UserError, match="every slot holds an object: delete one first"):
        full.add(copy_of=0, xy=(0.0, 0.0))
    again = full.remove(id=1).add(copy_of=0, xy=(0.1, 0.1))
    assert sorted(again.objects.id[0].tolist()) == [0, 2, 3, 4]


def test_size_depth_and_look_change_alone() -> None:
    s = scene()
    same_but(s, s.change(1, hw=(0.1, 0.3)), [(0, 1), (1, 2)], slice(2, 4))
    same_but(s, s.change(1, depth=2.5), [(0, 1), (1, 2)], slice(1, 2))
    looks = s.change(1, look_of=0)
    same_but(s, looks, [(0, 1), (1, 2)], slice(6, 11))
    assert torch.equal(looks.objects.o.what[1, 2], s.objects.o.what[1, 1])
    all_at_once = s.change(1, hw=(0.1, 0.3), depth=2.5, look_of=0, of=0)
    assert all_at_once.objects.o.depth[0, 1] == 2.5
    assert torch.equal(all_at_once.objects.flat()[1], s.objects.flat()[1])


def test_a_look_is_taken_where_both_objects_are() -> None:
    s = scene().remove(0, of=0)
    same_but(s, s.change(1, look_of=0), [(1, 2)], slice(6, 11))


EDITS: list[Callable[[Scene], Scene]] = [
    lambda s: s.move(0, (0.1, 0.2)),
    lambda s: s.remove(0),
    lambda s: s.add(0, (0.1, 0.2)),
    lambda s: s.change(0, hw=(0.1, 0.1), depth=1.0, look_of=1),
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_leaves_the_scene_before_it_as_it_was(edit: Callable[[Scene], Scene]) -> None:
    s = scene()
    before = deepcopy(s)
    edit(s)
    assert torch.equal(s.objects.flat(), before.objects.flat())
    assert torch.equal(s.objects.id, before.objects.id)
    assert torch.equal(s.objects.born, before.objects.born)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda s: s.move(7, (0.0, 0.0)), "there is no object 7; there are [0, 1, 2]"),
        (lambda s: s.remove(-1), "there is no object -1"),
        (lambda s: s.move(0, (0.0, 0.0), of=5), "there is no video 5; this state has 2"),
        (lambda s: s.move(0, (float("nan"), 0.0)), "xy must be finite numbers"),
        (lambda s: s.edit(s.where(0, None), xy=(0.1,)), "xy must be 2 numbers, not (0.1,)"),
        (lambda s: s.edit(s.where(0, None), hw=(0.1, 0.2, 0.3)), "hw must be 2 numbers"),
        (lambda s: s.change(0, hw=(float("inf"), 0.1)), "hw must be finite numbers"),
        (lambda s: s.change(0, hw=(-1.0, 0.1)), "in sides of the frame, above 0"),
        (lambda s: s.change(0, hw=(0.1, 0.0)), "in sides of the frame, above 0"),
        (lambda s: s.change(0, hw=(50.0, 50.0)), "at most 2"),
        (lambda s: s.change(0, depth=1e9), "depth is 1e+09"),
        (lambda s: s.change(0, depth=float("nan")), "depth must be finite"),
        (
            lambda s: s.remove(0, of=0).remove(1, of=1).change(0, look_of=1),
            "no video has both object 0 and object 1: choose two of the same video",
        ),
        (lambda s: s.change(0, velocity=(1.0, 0.0)), "keeps velocity in its hidden state"),
        (lambda s: s.change(0, look_of=9), "there is no object 9"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(edit: Callable[[Scene], Scene], said: str) -> None:
    with pytest.raises(UserError) as error:
        edit(scene())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_repeated_scene_has_each_video_next_to_its_copies() -> None:
    s = scene()
    three = repeat(s, 3)
    for row in range(6):
        assert torch.equal(three.objects.flat()[row], s.objects.flat()[row // 3])
    assert three.seen.shape == (6, 0)


def test_a_track_shows_what_the_scenes_hold() -> None:
    s = scene()
    track = as_track([s, s.move(0, (0.5, 0.5))], None, None)
    assert track.xy.shape == (2, 2, 4, 2)
    assert torch.equal(track.pres[:, 0], s.objects.o.pres[..., 0])
    assert track.state_at(0) is s
    assert torch.equal(track.id[:, 1], s.objects.id)


@given(st.integers(0, 9_999))
def test_a_box_is_found_again_from_its_drawn_part(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    low, high = (2 * torch.rand(2, 2, 4, 2, generator=g) - 1).sort(dim=0).values
    drawn = Extents((low + high) / 2, ((high - low) / 2).clamp_min(1 / 16))
    o = objects(2, 4, seed).o
    for whole, part in zip(drawn.around(*drawn.of(o.xy, o.hw)), (o.xy, o.hw), strict=True):
        torch.testing.assert_close(whole, part, atol=1e-5, rtol=1e-5)
    xy, hw = drawn.of(o.xy, o.hw)
    for b, k in product(range(2), range(4)):
        for axis, side in ((0, 1), (1, 0)):
            size = float(o.hw[b, k, side])
            ends = [float(end[b, k, side]) * size for end in (low, high)]
            middle = float(o.xy[b, k, axis]) + sum(ends) / 2
            assert float(xy[b, k, axis]) == pytest.approx(middle, abs=1e-5)
            if ends[1] - ends[0] > size / 8:
                assert float(hw[b, k, side]) == pytest.approx((ends[1] - ends[0]) / 2, abs=1e-5)


def test_an_edit_goes_on_into_imagination() -> None:
    model = build(config("maze"))
    with torch.no_grad():
        model.discovery.mlp_disc[-1].bias[0] = 6
    state = model.infer(video(2, 2), discover="first").state_at(-1)
    first = int(state.objects.id[0].max())
    moved = model.imagine_from(state.move(first, (0.9, 0.9), of=0), 2, sample=False)
    plain = model.imagine_from(state, 2, sample=False)
    k = state.objects.id[0].tolist().index(first)
    assert (moved.xy[0, 0, 0, k] - plain.xy[0, 0, 0, k]).abs().max() > 0.01
    assert (moved.xy[0, 0, 0, k] - 0.9).abs().max() <= model.cfg.propagation.update.xy
    torch.testing.assert_close(moved.xy[1], plain.xy[1], atol=1e-5, rtol=1e-4)
    copied = model.imagine_from(deepcopy(state), 2, sample=False)
    assert torch.equal(copied.reconstruction, plain.reconstruction)


def test_a_state_is_shown_by_its_public_name() -> None:
    assert repr(scene()) == "State: 3, 3 objects in 2 videos"
    assert repr(map_tensors(lambda tensor: tensor[:1], scene())) == "State: 3 objects in 1 video"
