"""Inferred chunks: shared by open pages, and the same as without sharing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from studio import Page, catalog, model
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.models.base import WorldModel
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.studio.branches import Moments, join
from gswm.studio.catalog import Catalog
from gswm.studio.perceiving import CHUNK, InferredChunks, perceived

SMALL = model()
VIDEO = (255 * tiny.video(batch=1, time=2 * CHUNK + 2)).to(torch.uint8)


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of frames of each call of a model."""
    calls: list[int] = []
    first, later = GSWM.infer, GSWM.infer_after

    def infer(self: GSWM, video: Tensor, **how: Any) -> Track:
        calls.append(video.shape[1])
        return first(self, video, **how)

    def infer_after(self: GSWM, state: Any, video: Tensor, **how: Any) -> Track:
        calls.append(video.shape[1])
        return later(self, state, video, **how)

    monkeypatch.setattr(GSWM, "infer", infer)
    monkeypatch.setattr(GSWM, "infer_after", infer_after)
    return calls


def seen(video: Tensor, kept: InferredChunks | None, how: Any = "first") -> Moments:
    """All frames of a video."""
    return join(list(perceived(SMALL, video, how, None, kept)))


def numbers(moments: Moments) -> list[np.ndarray]:
    """Every number of some moments."""
    found = [moments.objects, moments.pixels, moments.background]
    map_tensors(lambda x: (found.append(x.numpy()), x)[1], moments.states)
    return found


def assert_same(left: Moments, right: Moments) -> None:
    for ours, theirs in zip(numbers(left), numbers(right), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pages_that_open_a_video_at_the_same_time_infer_it_once(inferred: list[int]) -> None:
    kept = InferredChunks()
    pages = [perceived(SMALL, VIDEO, "first", None, kept) for _ in range(3)]
    parts = [list(round) for round in zip(*pages, strict=True)]
    assert inferred == [CHUNK, CHUNK, 2]
    assert all(part is round[0] for round in parts for part in round)


def test_fewer_given_frames_share_the_chunks_that_are_whole(inferred: list[int]) -> None:
    kept = InferredChunks()
    whole = list(perceived(SMALL, VIDEO, "first", None, kept))
    inferred.clear()
    seen(VIDEO[:, : CHUNK + 1], kept)
    assert inferred == [1]
    assert len(whole) == len(kept)


@pytest.mark.parametrize(
    ("changed", "how"), [([], "first"), ([0], "first"), ([CHUNK + 1], "first"), ([], "always")]
)
def test_inferred_chunks_are_those_of_the_same_video(changed: list[int], how: str) -> None:
    kept, video = InferredChunks(), VIDEO.clone()
    others = list(perceived(SMALL, video, "first", None, kept))
    video[:, changed] = 255 - video[:, changed]
    assert_same(seen(video, kept, how), seen(video, None, how))
    assert len(others) == len(kept)


def test_another_background_is_another_key() -> None:
    static: WorldModel[Any] = tiny.lively("clips", image_size=64).eval()
    kept, video, chunks = InferredChunks(), VIDEO[:, :2], list[Moments]()
    for shade in (10, 200):
        behind = torch.full((1, 3, 64, 64), shade, dtype=torch.uint8)
        (chunk,) = perceived(static, video, "first", behind, kept)
        (alone,) = perceived(static, video, "first", behind)
        assert_same(chunk, alone)
        chunks.append(chunk)
    assert len(kept) == len(chunks)


def test_chunks_last_as_long_as_a_page_has_them_open() -> None:
    kept = InferredChunks()
    given = (CHUNK + 1, 2 * CHUNK + 2)
    pages = [list(perceived(SMALL, VIDEO[:, :frames], "first", None, kept)) for frames in given]
    assert len(kept) == 4
    for left in (3, 0):
        pages.pop(0)
        assert len(kept) == left


def test_pages_share_what_a_model_of_a_file_has_inferred(
    tmp_path: Path, inferred: list[int]
) -> None:
    shelf = Catalog()
    shelf.add_weights("ball", str(tiny.ship(tmp_path, "single-ball")))
    shelf.add_world("single-ball")
    settings = {"given": 10, "steps": 1}
    pages = [Page(shelf).open(model="ball", world="single-ball", settings=settings)]
    inferred.clear()
    pages += [Page(shelf).open(model="ball", world="single-ball", settings=settings)]
    assert inferred == []
    first, second = (page.of("branch")[0][1] for page in pages)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_model_in_memory_may_change_between_two_pages() -> None:
    shelf, changing = Catalog(), model()
    shelf.add_model("small", changing, "noise", 4)
    shelf.add_source("noise", lambda _: catalog().episode("noise", 0, 64))
    before = Page(shelf).open().of("branch")[0][1]["objects"]
    with torch.no_grad():
        changing.get_parameter("discovery.mlp_disc.4.bias")[1:] += 1
    after = Page(shelf).open().of("branch")[0][1]["objects"]
    assert not np.allclose(before, after)
