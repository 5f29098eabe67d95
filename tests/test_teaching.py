"""Motion labels: clear boxes enclose objects, and doubtful ones are marked as unclear."""

import numpy as np
import pytest
import synthetic_videos as synthetic
import torch
from jaxtyping import Float32
from torch import Tensor

from gswm.data.labels import UNCLEAR, Labels
from gswm.data.looking.moving import Blob
from gswm.data.looking.teaching import (
    BOXES,
    NEAR,
    motion_labels,
    nothing_known,
    object_rows,
    slotted,
)
from gswm.data.standing import empty_scene

SIZE = 192
"""Side of the square videos, with black bars."""
TOP = (SIZE - synthetic.HEIGHT) // 2


def square(kind: str) -> tuple[synthetic.Synthetic, np.ndarray, Float32[Tensor, "3 size size"]]:
    """A synthetic video in a square, and its background."""
    made = synthetic.make(kind)
    frames = np.pad(made.video, ((0, 0), (TOP, TOP), (0, 0), (0, 0)))
    video = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2)))
    return made, frames, empty_scene(video)


def labels_of(boxes: np.ndarray) -> Labels:
    return Labels.unpacked(torch.from_numpy(boxes)[None])


@pytest.mark.parametrize(
    "kind", ["discs", *(pytest.param(k, marks=pytest.mark.slow) for k in ("swaying", "insects"))]
)
def test_clear_boxes_are_where_the_objects_are(kind: str) -> None:
    made, frames, behind = square(kind)
    (boxes,) = motion_labels([frames], behind)
    found = labels_of(boxes)
    assert found.present.sum() > 0.7 * made.present.sum()
    time, slot = found.present[0].nonzero(as_tuple=True)
    at = ((found.xy[0, time, slot] + 1) * SIZE / 2).numpy() - [0, TOP]
    true = np.where(made.present[..., None], made.centers, np.inf)[time.numpy()]
    near = np.hypot(*(true - at[:, None]).transpose(2, 0, 1)).min(axis=1)
    assert np.mean(near < 0.5 * made.sizes.max()) > 0.95
    height = found.hw[0, time, slot, 0].numpy() * SIZE
    assert np.median(height) == pytest.approx(np.median(made.sizes[:, 1]), rel=0.15)


@pytest.mark.slow
def test_stretches_of_one_video_have_as_many_boxes() -> None:
    _, frames, behind = square("discs")
    one, other = motion_labels([frames[:50], frames[50:90]], behind)
    assert one.shape[1:] == other.shape[1:]
    assert len(one) == 50
    assert len(other) == 40
    assert motion_labels([], behind) == []


def test_a_video_without_motion_has_no_objects() -> None:
    still = np.full((20, 32, 32, 3), 90, np.uint8)
    (boxes,) = motion_labels([still], torch.full((3, 32, 32), 90 / 255))
    assert not boxes[..., 0].any()


def blob(time: int, x: float, side: float = 10.0) -> Blob:
    box = (x - side / 2, 45.0, x + side / 2, 55.0)
    return Blob(time, box, (x, 50.0), side * 10, 0.5, 2.0, 0.0)


def test_a_blob_that_grows_for_a_moment_is_unclear() -> None:
    trace = tuple(blob(t, 40.0 + t, 30.0 if t in (9, 10) else 10.0) for t in range(20))
    sure = {time: present for time, present, _ in object_rows(trace, 100, 20)}
    assert [t for t, present in sure.items() if not present] == [9, 10]


def test_lost_frames_are_filled_and_the_ends_of_a_trace_inside_the_frame_are_unclear() -> None:
    trace = tuple(blob(t, 40.0 + 2 * t) for t in range(20, 28) if t != 23)
    rows = {time: (present, place) for time, present, place in object_rows(trace, 200, 35)}
    assert rows[23][0] == 1
    assert rows[23][1].center[0] == pytest.approx(86)
    assert sorted(rows) == list(range(20 - NEAR, 35))
    assert all(not rows[t][0] for t in (*range(20 - NEAR, 20), *range(28, 35)))


def test_an_object_that_leaves_the_frame_is_gone() -> None:
    trace = tuple(blob(t, 80.0 + 2 * t) for t in range(8))
    assert max(time for time, _, _ in object_rows(trace, 100, 30)) == 7


def test_a_slot_is_used_again_only_after_a_pause() -> None:
    def thing(first: int, last: int) -> list[tuple[int, float, Blob]]:
        return [(t, 1.0, blob(t, 50.0)) for t in range(first, last)]

    assert len(slotted([thing(0, 10), thing(10 + NEAR, 40)])) == 1
    assert len(slotted([thing(0, 10), thing(9 + NEAR, 40)])) == 2
    assert len(slotted([thing(0, 10)] * (BOXES + 3))) == BOXES


def test_labels_that_say_nothing_cover_the_frame() -> None:
    found = labels_of(nothing_known(3, 2))
    assert not found.present.any()
    assert found.visibility[0, :, 0].tolist() == pytest.approx([UNCLEAR] * 3)
    assert (found.hw[0, :, 0] == 1).all()
    assert not found.visibility[0, :, 1].any()
