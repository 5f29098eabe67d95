"""`gswm bench ...`: figures of speed."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.table import Table
from tyro.conf import arg

from gswm.commands.parsing import PRINTED, check_json
from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.limits import check_range
from gswm.data.example import CARS


@dataclass(frozen=True)
class BenchDataCommand:
    """Settings of `gswm bench data`."""

    worlds: Annotated[tuple[str, ...], arg(aliases=["--world"])] = ()
    """Worlds to measure. Default: all."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device for simulation and rendering."""
    episodes: int | None = None
    """Episodes per world. Default: 2,000 on a CPU and 10,000 on a GPU; for 3D worlds, 40 on a CPU
    and the whole training split on a GPU."""
    keep: bool = False
    """Keep all episodes in memory."""
    windows: bool = True
    """Also measure the loading of training batches."""
    json: Path | None = None
    """Write all measurements to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""

    def run(self) -> None:
        """Measure, and print a table."""
        import torch

        from gswm.bench.data import bench_data

        check_json(self.json, force=self.force)
        check_range({"--episodes": self.episodes}, 1)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("no CUDA device found; use --device cpu")
        figures = bench_data(self.worlds, self.device, self.episodes, self.keep, self.windows)
        lines = [
            f"{way:<16} {rate:>12,.0f} windows of 20 frames per second"
            for way, rate in figures["windows_per_second"].items()
        ]
        tell(figures, self.json, worlds_table(figures["worlds"]), *lines)


@dataclass(frozen=True)
class BenchTrainCommand:
    """Settings of `gswm bench train`."""

    recipe: tuple[str, ...] = ("two-layer",)
    """Recipes to measure."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    batch: tuple[int, ...] = ()
    """Batch sizes. Default: that of the recipe."""
    lengths: tuple[int, ...] = ()
    """Video lengths in frames. Default: the longest of the recipe."""
    objects: tuple[int, ...] = ()
    """Numbers of object slots. Default: that of the recipe."""
    plain: bool = False
    """Measure both the fast and the plain path, not only the one used in training on this device.
    """
    compiled: bool = True
    """On a GPU, compile the fast path, as training does; this takes minutes per case."""
    steps: int = 20
    """Number of timed steps per case."""
    json: Path | None = None
    """Write all measurements to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""

    def run(self) -> None:
        """Measure, and print a table."""
        from gswm.bench.train import bench_train
        from gswm.core.devices import find_device

        check_json(self.json, force=self.force)
        figures = bench_train(
            self.recipe,
            find_device(self.device),
            batches=self.batch,
            lengths=self.lengths,
            objects=self.objects,
            both=self.plain,
            compiled=self.compiled,
            steps=self.steps,
            after=self.note,
        )
        tell(figures, self.json, steps_table(figures))

    def note(self, figures: dict) -> None:
        """Save the results so far, since the next case may take minutes."""
        if self.json not in (None, PRINTED):
            write_figures(figures, self.json)
        row = figures["steps"][-1]
        what = f"{row['recipe']}, T {row['length']}, batch {row['batch']}, K {row['objects']}, "
        what += row["path"]
        first = f"first after {row['seconds_to_first_step']:.0f} s"
        print(f"{what}: {row['ms']:,.1f} ms per step, {first}", file=sys.stderr, flush=True)


def steps_table(figures: dict) -> Table:
    """One line per case."""
    table = Table(title=f"Training steps of {figures['recipe']}, {figures['machine']['device']}")
    several = len({row["recipe"] for row in figures["steps"]}) > 1
    if several:
        table.add_column("recipe", no_wrap=True)
    for name in ("T", "batch", "K", "path", "ms", "best", "frames/s", "kernels", "GiB"):
        table.add_column(name, justify="right")
    for name in ("first s", "full s", "authors ms", "times"):
        table.add_column(name, justify="right")
    for row in figures["steps"]:
        what = (str(row[name]) for name in ("length", "batch", "objects"))
        numbers = (row["ms"], row["ms_best"], row["frames_per_second"], row["kernels"])
        starts = (row["seconds_to_first_step"], row["seconds_to_full_speed"])
        cells = (*numbers, gib(row["peak_bytes"]), *starts, row["authors_ms"], row["times_as_fast"])
        whose = [row["recipe"]] if several else []
        table.add_row(*whose, *what, row["path"], *map(shown, cells))
    return table


@dataclass(frozen=True)
class BenchImagineCommand:
    """Settings of `gswm bench imagine`."""

    recipe: str = "two-layer"
    """Recipe to measure."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    given: int = 10
    """Number of given frames."""
    steps: int = 90
    """Number of frames to imagine."""
    batch: int = 16
    """Batch size."""
    repeats: int = 5
    """Number of timed calls."""
    json: Path | None = None
    """Write all measurements to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""

    def run(self) -> None:
        """Measure, and print a table."""
        from gswm.bench.imagine import bench_imagine
        from gswm.core.devices import find_device

        check_json(self.json, force=self.force)
        found = bench_imagine(
            self.recipe,
            find_device(self.device),
            given=self.given,
            steps=self.steps,
            batch=self.batch,
            repeats=self.repeats,
        )
        title = f"{self.recipe}, {self.given} frames given, {self.steps} imagined"
        table = Table(title=f"{title}, batch {self.batch}, {found['machine']['device']}")
        for name in ("path", "ms", "best", "first call", "authors"):
            table.add_column(name, justify="right")
        for row in found["paths"]:
            cells = (row["ms"], row["ms_best"], row["ms_first"], found["authors_ms"])
            table.add_row(row["path"], *map(shown, cells))
        tell(found, self.json, table)


@dataclass(frozen=True)
class BenchTrackCommand:
    """Settings of `gswm bench track`."""

    model: str | None = None
    """Model to use: a run folder, a weights file, or the name of a shipped model. Default: clips.
    """
    video: Path = CARS
    """Video file or folder of images. Default: the example video."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    frames: int = 64
    """Number of frames to track, at the frame rate and resolution of the model."""
    repeats: int = 3
    """Number of timed passes."""
    json: Path | None = None
    """Write all measurements to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""

    def run(self) -> None:
        """Measure, and print a table."""
        from gswm.bench.track import bench_track
        from gswm.core.devices import find_device
        from gswm.weights.finding import for_any_video

        check_json(self.json, force=self.force)
        device, name = find_device(self.device), self.model or for_any_video()
        found = bench_track(name, self.video, device, frames=self.frames, repeats=self.repeats)
        what = f"{found['frames']} frames of {found['video']}, {found['size']} × {found['size']}"
        table = Table(title=f"{found['model']}, {what}, {found['machine']['device']}")
        for column in ("path", "frames/s", "best", "first pass, s"):
            table.add_column(column, justify="right")
        for row in found["paths"]:
            rates = (row["frames_per_second"], row["frames_per_second_best"])
            table.add_row(row["path"], *map(shown, (*rates, row["seconds_first"])))
        tell(found, self.json, table)


@dataclass(frozen=True)
class BenchStudioCommand:
    """Settings of `gswm bench studio`."""

    model: str = "two-layer"
    """Model to use: a run folder, a weights file, or the name of a shipped model."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""
    futures: tuple[int, ...] = (1, 8, 64)
    """Numbers of simultaneous futures to measure."""
    steps: int = 40
    """Number of frames to imagine after each edit."""
    repeats: int = 5
    """Number of timed edits of each kind."""
    json: Path | None = None
    """Write all measurements to this JSON file; without a path, print JSON only."""
    force: bool = False
    """Overwrite the --json file if it exists."""

    def run(self) -> None:
        """Measure, and print a table."""
        from gswm.bench.studio import bench_studio
        from gswm.core.devices import find_device

        check_json(self.json, force=self.force)
        if min([self.steps, self.repeats, *self.futures]) < 1 or max(self.futures) > 64:
            raise UserError(
                "--steps, --repeats and --futures must be at least 1, and --futures at most 64"
            )
        device = find_device(self.device)
        found = bench_studio(self.model, device, self.futures, self.steps, self.repeats)
        table = Table("futures", "edit", "first frame, ms", "frames per second of each future")
        for row in found["figures"]:
            figures = (f"{row['first_ms']:.0f}", f"{row['frames_per_second']:.0f}")
            table.add_row(str(row["futures"]), row["edit"], *figures)
        tell(found, self.json, table)


def worlds_table(rows: list[dict]) -> Table:
    """One line per world."""
    table = Table(title="Generated episodes")
    table.add_column("world", no_wrap=True)
    for name in ("episodes", "s", "episodes/s", "start s", "physics s", "drawing s"):
        table.add_column(name, justify="right")
    for name in ("host GiB", "GPU GiB", "authors/s", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        authors = 1 / row["authors"] if row["authors"] else None
        numbers = (row["seconds"], row["rate"], row["start_seconds"], row["physics_seconds"])
        sizes = (gib(row["host_bytes"]), gib(row["device_bytes"]))
        cells = (*numbers, row["drawing_seconds"], *sizes, authors, row["ratio"])
        table.add_row(row["world"], str(row["episodes"]), *map(shown, cells))
    return table


def gib(size: int | None) -> float | None:
    """Bytes as GiB."""
    return None if size is None else size / 2**30


def shown(number: float | None) -> str:
    """Three or so digits, or nothing."""
    if number is None:
        return ""
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def tell(figures: dict, path: Path | None, *shown: Table | str) -> None:
    """Print the table, and write all figures if a file is given."""
    if path == PRINTED:
        print(json.dumps(figures, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    for each in shown:
        console.print(each)
    if path is not None:
        write_figures(figures, path)
        console.print(f"wrote {path}")


def write_figures(figures: dict, path: Path) -> None:
    """Write all figures as JSON."""
    write_whole(path, (json.dumps(figures, indent=2) + "\n").encode())
