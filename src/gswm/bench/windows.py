"""Speed of training batches: windows of 20 frames of 64 × 64 pixels per second."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gswm.data.batches.resident import Resident
from gswm.data.batches.streaming import Streaming
from gswm.data.batches.windows import Windows
from gswm.data.episode import Episodes
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.stored import StoredEpisodes
from gswm.data.storage.writer import Writer

LENGTH, FRAMES, SIZE = 20, 100, 64
WORKERS = 4


def bench_windows(
    device: str | torch.device,
    *,
    batches: tuple[int, ...] = (16, 64, 256),
    episodes: int | None = None,
    seconds: float = 1.0,
) -> dict[str, float]:
    """Windows per second by source, for every batch size.

    `resident` calls the loader from Python, `captured` replays a CUDA graph of it, and
    `streaming` reads a file from the system's page cache.
    """
    device = torch.device(device)
    cuda = device.type == "cuda"
    episodes = episodes or (4000 if cuda else 100)
    video = torch.randint(256, (episodes, FRAMES, SIZE, SIZE, 3), dtype=torch.uint8, device=device)
    figures = {}
    for batch in batches:
        windows = Windows(episodes, FRAMES, batch, device=device)
        loader = Resident(StoredEpisodes(video), windows, LENGTH, {})
        figures[f"resident_{batch}"] = batch * _rate(loader.batch, device, seconds)
        if cuda:
            figures[f"captured_{batch}"] = batch * _rate(_captured(loader), device, seconds)
    some = video[:200]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.hdf5"
        with Writer(path, "video") as writer:
            writer.append(Episodes(some.permute(0, 1, 4, 2, 3).cpu()))
        for batch in batches:
            windows = Windows(len(some), FRAMES, batch, device=device)
            loader = Streaming(FrameFile(path), windows, LENGTH, {}, workers=WORKERS)
            figures[f"streaming_{batch}"] = batch * _rate(loader.batch, device, seconds)
            loader.close()
    return figures


def _captured(loader: Resident) -> Callable[[int], None]:
    step = torch.zeros((), dtype=torch.int64, device=loader.windows.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loader.batch(step)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loader.batch(step)
        step += 1
    return lambda _: graph.replay()


def _rate(batch: Callable[[int], object], device: torch.device, seconds: float) -> float:
    """Calls per second after a warm-up, including work on the device."""

    def timed(first: int, calls: int) -> float:
        start = time.perf_counter()
        for step in range(first, first + calls):
            batch(step)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    timed(0, 10)
    each = timed(10, 20) / 20
    calls = max(20, int(seconds / each))
    return calls / timed(30, calls)
