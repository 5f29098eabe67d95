"""Speed of tracking: the model alone, and `gswm track` without writing files.

Each figure is the median of several passes over the same frames; the first pass is a warm-up and is
reported separately.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gswm.bench.train import collect, machine, wait
from gswm.core.errors import UserError
from gswm.data.importing.film import Film
from gswm.data.importing.sources import check_one_video
from gswm.data.importing.videos import Cut
from gswm.fast.loading import load
from gswm.models.base import WorldModel
from gswm.tracking.following import followed, piece_of
from gswm.tracking.misfit import share_of
from gswm.tracking.windows import windows_for


def bench_track(
    name: str | Path,
    video: Path,
    device: str | torch.device = "cpu",
    *,
    frames: int = 64,
    repeats: int = 3,
) -> dict[str, Any]:
    """Measure, and return JSON data."""
    if min(frames, repeats) < 1:
        raise UserError("frames and repeats must be at least 1")
    check_one_video(video)
    device = torch.device(device)
    model = load(name, device)
    film = Film(video, Cut.like(model.videos, model.image_size, None, None, None), frames)
    pixels, behind = film.read().to(device), model.background_for(film)
    frames = pixels.shape[1]  # the video may be shorter
    chunks = pixels.split(piece_of(model), dim=1)
    ways: dict[str, Callable[[], object]] = {
        "model": lambda: list(model.infer_chunks(chunks, background=behind)),
        "with decoding": lambda: track_film(model, film),
    }
    rows = []
    for way, call in ways.items():
        collect(device)
        first, *seconds = (timed(call, device) for _ in range(1 + repeats))
        seconds.sort()
        rate = {
            "frames_per_second": frames / seconds[repeats // 2],
            "frames_per_second_best": frames / seconds[0],
        }
        rows.append({"path": way, **rate, "seconds_first": first})
    size = {"size": model.image_size, "frames": frames, "video": video.name}
    return {"model": str(name), **size, "machine": machine(device), "paths": rows}


def track_film(model: WorldModel[Any], film: Film) -> None:
    """Track a video like `gswm track`: windows, background, boxes, and the check of the fit."""
    windows, behind = windows_for(model, film)
    for i, part in enumerate(followed(model, windows, behind, draw_first=True)):
        if i == 0:
            share_of(model, part.video, part.track, behind)


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds that a call takes, including work on the device."""
    begin = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - begin
