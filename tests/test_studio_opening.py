"""The first view of a video: the frame where it begins, and the cost of finding it."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gswm.commands.studio import StudioCommand
from gswm.core.errors import UserError
from gswm.data.placement import Footage, Placement
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.studio import opening
from gswm.studio.catalog import Catalog, Entry
from gswm.studio.perceiving import CHUNK
from gswm.viz import formats


@given(st.lists(st.sets(st.integers(0, 2))), st.integers(1, 4))
def test_the_first_window_with_a_common_object_is_found(views: list[set[int]], n: int) -> None:
    windows = range(len(views) - n + 1)
    common = [t for t in windows if set.intersection(*views[t : t + n])]
    found = opening.first_window(views, n)
    assert found == common[0] if common else 0 <= found < max(1, len(views))


def test_without_such_a_window_it_is_where_an_object_stays_longest() -> None:
    assert opening.first_window([set(), {1}, set(), {2}, {2}, {3}], 3) == 2
    assert opening.first_window([set(), set()], 3) == 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Chunks that models infer; they find an object that crosses the picture in 20 frames."""
    chunks: list[Tensor] = []

    def infer_chunks(_: GSWM, given: Iterable[Tensor], **__: Any) -> Iterator[Track]:
        for chunk in given:
            before = sum(each.shape[1] for each in chunks)
            chunks.append(chunk)
            at = torch.arange(before, before + chunk.shape[1])
            one = torch.ones(1, len(at), 1)
            xy = torch.stack([at / 10 - 1, 0 * at], -1)[None, :, None]
            yield Track(xy, torch.full_like(xy, 0.25), one, one, one.long(), None, None, ())

    monkeypatch.setattr(GSWM, "infer_chunks", infer_chunks)
    return chunks


def test_an_object_is_in_view_when_its_box_is_inside_the_picture(seen: list[Tensor]) -> None:
    video = torch.zeros(1, 60, 3, 64, 64, dtype=torch.uint8)
    footage = Footage(Placement.of(80, 80, 64), np.arange(60), np.arange(60) / 10)
    assert opening.first_in_view(tiny.lively(), video, footage, 4, 20) == 3
    assert len(seen) == math.ceil(7 / CHUNK)  # no more than is needed


@pytest.mark.parametrize(("skip", "frames"), [(None, 9), (0, 12), (5, 7)])
def test_a_video_begins_where_an_object_is_in_view_or_where_the_user_says(
    skip: int | None, frames: int, seen: list[Tensor], tmp_path: Path
) -> None:
    film, shelf = tmp_path / "a.mp4", Catalog()
    formats.save_video(film, np.zeros((12, 16, 16, 3), np.uint8), 10)
    shelf.models["own"] = Entry(tiny.lively, "video", 4, 2, "")
    shown = StudioCommand(video=film, skip=skip).source(shelf, "own")
    assert shelf.uploads[shown].shape[1] == frames
    with pytest.raises(UserError, match="--skip is 12"):
        StudioCommand(video=film, skip=12).source(shelf, "own")
