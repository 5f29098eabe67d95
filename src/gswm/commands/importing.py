"""`gswm data import` and `gswm data info`."""

import fcntl
import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, Suppress, arg

from gswm.core.errors import UserError
from gswm.core.files import check_output
from gswm.core.waiting import tell
from gswm.core.words import counted, printable
from gswm.data.importing.pipeline import Summary, import_videos
from gswm.data.importing.sources import Source, find
from gswm.data.importing.videos import Cut
from gswm.data.placement import Fit, as_text, parse_region
from gswm.data.storage.hdf5 import SUFFIXES, open_file
from gswm.data.storage.writer import Writer

NAMED = 20


@dataclass(frozen=True)
class ImportCommand:
    """Settings of `gswm data import`."""

    EXAMPLES: ClassVar = (
        "gswm data import film.mp4 --out film.hdf5",
        "gswm data import videos --size 128 --fps 10 --fit crop --out videos.hdf5",
    )

    sources: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH...")]
    """Video files, folders of videos, folders of images, or directory trees of these. Folders named
    train, val and test define the splits. Other videos are split by name: about 80 % train, 10 %
    val and 10 % test, or all train if a split would be empty."""
    out: Path
    """Output file (.hdf5)."""
    size: int = 64
    """Frame size in pixels."""
    fps: float | None = None
    """Frame rate at which to sample videos, by their timestamps. Default: every frame. Ignored for
    images, which have no timestamps."""
    frames: int = 100
    """Frames per episode. A long video yields several episodes; leftover frames are dropped."""
    fit: Fit = "letterbox"
    """Method of making frames square: add black bars (letterbox), keep the central square (crop),
    or distort (stretch)."""
    region: str | None = None
    """Use only this region of the upright video: x,y,width,height in pixels."""
    workers: int = os.cpu_count() or 1
    """Number of videos to decode in parallel."""
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    force: bool = False
    """Overwrite the output file if it exists."""
    once: Suppress[bool] = False
    """Whether another command imports, without these settings."""

    def run(self) -> int:
        """Import all usable videos; return 2 if any was skipped."""
        for name in ("size", "fps", "frames", "workers"):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise UserError(f"--{name} is {value}; it must be positive")
        if not self.sources:
            raise UserError("nothing to import; specify videos or folders of videos")
        region = parse_region(self.region)
        sources = [path for path in self.sources if not path.is_dir()]
        check_output(self.out, SUFFIXES, sources, force=self.force)
        found = list(find(self.sources))
        cut = Cut(self.size, self.fps, self.frames, self.fit, region, self.allow_damaged)
        total = sum(isinstance(item, Source) for item in found)
        settings: dict[str, str | float] = {"fit": self.fit}
        settings |= {} if self.fps is None else {"fps": self.fps}
        settings |= {} if region is None else {"region": as_text(region)}
        with Writer(self.out, "video", force=self.force, attributes=settings) as writer:
            with progress(total) as done:
                summary = import_videos(found, writer, cut, self.workers, done)
            report_skipped(summary)
            self.say_how_to_take_short_ones(summary)
            if not summary.videos:
                raise UserError(f"nothing could be imported; {self.out} was not written")
        report(summary, self)
        return 2 if summary.skipped else 0

    def say_how_to_take_short_ones(self, summary: Summary) -> None:
        """Print the command that includes videos too short for an episode, if it differs."""
        frames = [skipped.frames for skipped in summary.skipped if skipped.frames is not None]
        if self.once and frames:
            other = replace(self, frames=min(frames), force=summary.videos > 0)
            tell(
                f"gswm: to include short videos, run `{other.command()}`, and then this command "
                "again"
            )

    def command(self) -> str:
        """The command of this import."""
        words = ["gswm", "data", "import", *map(str, self.sources), "--out", str(self.out)]
        words += ["--size", str(self.size)]
        words += [] if self.fps is None else ["--fps", f"{self.fps:g}"]
        words += [] if self.fit == Cut.fit else ["--fit", self.fit]
        words += [] if self.region is None else ["--region", self.region]
        words += [] if self.frames == Cut.frames else ["--frames", str(self.frames)]
        words += ["--allow-damaged"] if self.allow_damaged else []
        return shlex.join([*words, *(["--force"] if self.force else [])])


@contextmanager
def progress(total: int) -> Iterator[Callable[[Source], None]]:
    """Show a progress bar on a terminal; otherwise print a line for every tenth video."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        count = 0

        def line(source: Source) -> None:
            nonlocal count
            count += 1
            if count * 10 // total > (count - 1) * 10 // total and total >= 10:
                print(f"{count} of {total} videos done", file=sys.stderr, flush=True)

        yield line
        return
    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.description}"
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda source: bar.update(task, advance=1, description=escape(source.name))


def report_skipped(summary: Summary) -> None:
    """One line for each skipped video, up to a number of them."""
    for skipped in summary.skipped[:NAMED]:
        print(f"gswm: skipped {skipped.name}: {skipped.reason}", file=sys.stderr)
    if (more := len(summary.skipped) - NAMED) > 0:
        print(f"gswm: skipped {more} more", file=sys.stderr)


def report(summary: Summary, command: ImportCommand) -> None:
    """A description of the file."""
    episodes = sum(summary.splits.values())
    shape = f"{command.frames} frames, {command.size} x {command.size}"
    of_videos = counted(summary.videos, "video")
    print(f"{command.out}: {counted(episodes, 'episode')} of {shape}, from {of_videos}")
    print(f"splits: {in_words(summary.splits)}")
    if summary.by_name:
        how = (
            "all train, since a split would be empty"
            if summary.all_train
            else "by the videos' names"
        )
        print(f"split {how}; to choose the splits yourself, use folders named train, val and test")
    if summary.left_over:
        print(f"dropped {counted(summary.left_over, 'leftover frame')} at the ends of videos")
    if summary.skipped:
        print(f"skipped: {len(summary.skipped)}")


def in_words(splits: Counter[str]) -> str:
    """The number of episodes in each split."""
    known = [name for name in ("train", "val", "test") if name in splits]
    return ", ".join(f"{name} {splits[name]}" for name in known)


def file_of(folder: Path) -> Path:
    """The default file for a folder of videos, or for one video, beside it."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return Path(f"{named}.hdf5")


def import_once(folder: Path, cut: Cut) -> Path:
    """The file with a folder's videos, or with one, imported unless an earlier command did."""
    out = file_of(folder)
    if not out.exists() and not folder.exists():
        raise UserError(
            f"{folder} is not a video, a folder of videos or an HDF5 file; check the name"
        )
    with alone_in(folder):
        if out.exists():
            tell(f"{folder}: using {out}; delete that file to import again")
            return out
        region = None if cut.region is None else as_text(cut.region)
        how = (cut.size, cut.fps, cut.frames, cut.fit, region)
        job = ImportCommand((folder,), out, *how, allow_damaged=cut.allow_damaged, once=True)
        tell(f"`{job.command()}`, once:")
        try:
            job.run()
        except UserError:
            if not out.exists():  # another machine was faster
                raise
    return out


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the lock: of several that start at once, one imports."""
    held = None
    with suppress(OSError):  # the folder is gone, or its file system has no locks
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


@dataclass(frozen=True)
class InfoCommand:
    """Settings of `gswm data info`."""

    file: Positional[Path]
    """HDF5 file of episodes: generated, imported, or from the authors' release."""

    def run(self) -> None:
        """Print the contents of the file, one fact per line."""
        with open_file(self.file) as file:
            facts = {
                "file": file.path,
                "bytes": f"{file.path.stat().st_size:,}",
                "layout": file.layout,
                "episodes": len(file),
                "frames": file.frames,
                "image": f"{file.width} x {file.height}",
                **file.extras,
                **({"warning": file.ignored} if file.ignored else {}),
            }
            known = {k: v for k, v in sorted(file.attributes.items()) if k not in facts}
            splits, sources = file.splits, file.sources
            facts |= {"made with gswm" if key == "gswm" else key: v for key, v in known.items()}
            facts["splits"] = "not stated" if splits is None else in_words(Counter(splits.tolist()))
            if sources is not None:
                facts["videos"] = len(set(sources))
            for key, shape in file.shapes.items():
                facts[f"key {key}"] = f"{file.types[key]} {shape}"
        for name, fact in facts.items():
            print(printable(f"{name}: {fact}"))
