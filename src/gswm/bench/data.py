"""Speed of data generation, and of training batches."""

import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

import torch

from gswm.bench.windows import bench_windows
from gswm.data.episode import Episodes
from gswm.data.worlds.balls import Balls, episode_seeds
from gswm.data.worlds.base import World
from gswm.data.worlds.clips.world import Clips
from gswm.data.worlds.obj3d.scenes import join
from gswm.data.worlds.obj3d.world import Obj3D
from gswm.data.worlds.registry import WORLDS, world

REPEATS = 3
AUTHORS = {"interaction": 0.10, "occlusion": 0.08, "two-layer": 0.17, "two-layer-dense": 0.74}
"""Seconds per episode of the paper's own generator, on one core."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class WorldFigures:
    """The cost of generating episodes: seconds in total and per part."""

    world: str
    device: str
    episodes: int
    seconds: float
    """Seconds of the fastest of three runs."""
    start_seconds: float | None
    """Seconds for the initial conditions; None for a world without these parts."""
    physics_seconds: float | None
    drawing_seconds: float | None
    host_bytes: int
    """Peak memory of this process so far."""
    device_bytes: int | None
    """Peak memory on the GPU, including the episodes themselves."""

    @property
    def rate(self) -> float:
        """Episodes per second."""
        return self.episodes / self.seconds

    @property
    def ratio(self) -> float | None:
        """Speed relative to the paper's own generator on one core."""
        return self.rate * AUTHORS[self.world] if self.world in AUTHORS else None


def bench_data(
    worlds: Sequence[str] = (),
    device: str = "cpu",
    episodes: int | None = None,
    keep: bool = False,
    windows: bool = True,
) -> dict:
    """Measure worlds (by default all), and return JSON data."""
    made = [bench_world(world(name), device, episodes, keep) for name in worlds or WORLDS]
    return {
        "machine": {
            "platform": platform.platform(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name(device) if device != "cpu" else "cpu",
        },
        "worlds": [
            asdict(f) | {"rate": f.rate, "authors": AUTHORS.get(f.world), "ratio": f.ratio}
            for f in made
        ],
        "windows_per_second": bench_windows(device) if windows else {},
    }


def bench_world(
    made: World, device: str, episodes: int | None = None, keep: bool = False
) -> WorldFigures:
    """Generate the first training episodes; `keep` holds all of them at once."""
    cuda = torch.device(device).type == "cuda"
    number = episodes or usual_number(made, cuda)
    seed = made.splits["train"].seed
    for _ in made.episodes(seed, 2, device):
        pass
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    repeats = range(1 if keep or isinstance(made, Obj3D) else REPEATS)
    seconds = min(
        timed(lambda: consume(made, seed, number, device, keep), device)[0] for _ in repeats
    )
    device_bytes = torch.cuda.max_memory_allocated(device) if cuda else None
    some = min(number, 40 if isinstance(made, Obj3D) else 500)
    start, physics, drawing = (
        None if part is None else part * number / some for part in parts(made, seed, some, device)
    )
    return WorldFigures(
        world=made.name,
        device=device,
        episodes=number,
        seconds=seconds,
        start_seconds=start,
        physics_seconds=physics,
        drawing_seconds=drawing,
        host_bytes=host_bytes(),
        device_bytes=device_bytes,
    )


def usual_number(made: World, cuda: bool) -> int:
    """A number of episodes that takes a few seconds."""
    if isinstance(made, Obj3D):
        return made.splits["train"].episodes if cuda else 40
    if isinstance(made, Clips):
        return 1_000 if cuda else 64
    return 10_000 if cuda else 2_000


def consume(made: World, seed: int, n: int, device: str, keep: bool) -> list[Episodes]:
    """Generate all chunks, and keep them if requested."""
    kept = []
    for chunk in made.episodes(seed, n, device):
        if keep:
            kept.append(chunk)
    return kept


def parts(
    made: World, seed: int, n: int, device: str
) -> tuple[float | None, float | None, float | None]:
    """Seconds of initial conditions, physics and drawing, in sequence."""
    if isinstance(made, Obj3D):
        physics_seconds, scenes = timed(lambda: join(list(made.scenes(seed, n, n))), device)
        drawing_seconds, _ = timed(lambda: made.show(scenes, device), device)
        return None, physics_seconds, drawing_seconds
    if not isinstance(made, Balls):
        return None, None, None
    seeds = next(episode_seeds(seed, n, n))
    start_seconds, start = timed(lambda: made.start(seeds), device)
    physics_seconds, path = timed(lambda: made.path(start, device), device)
    truth = made.truth(*path, start.colors.to(device))
    drawing_seconds, _ = timed(lambda: made.video(truth), device)
    return start_seconds, physics_seconds, drawing_seconds


def timed(work: Callable[[], Result], device: str) -> tuple[float, Result]:
    """Seconds that `work` takes, including work on the device, and its result."""
    begin = time.perf_counter()
    result = work()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin, result


def host_bytes() -> int:
    """Peak memory of this process."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
