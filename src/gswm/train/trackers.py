"""Sends a run's metrics to TensorBoard and Weights & Biases, if installed.

metrics.jsonl remains the reference. Errors here are reported in one line, and training continues.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, cast, runtime_checkable

from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.settings import to_dict
from gswm.core.words import install
from gswm.train.loop import Run


@runtime_checkable
class Tracker(Protocol):
    """Receives each line of metrics."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add the metrics of a step."""
        ...

    def close(self) -> None:
        """Finish."""
        ...


class TensorBoard:
    """Events in the run's folder; those of an earlier start are void from step `purge_step` on.

    The file stays open and is written without a thread, so it follows a folder that is moved.
    TensorBoard's own writer opens the file by its name at every flush, in a thread.
    """

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        events, summaries = cast(Any, event_pb2), cast(Any, summary_pb2)  # their types are unknown
        self.event, self.summary = events.Event, summaries.Summary
        name = f"events.out.tfevents.{time.time():.6f}.{platform.node()}.{os.getpid()}"
        self.file = RecordWriter((folder / name).open("xb", buffering=0))
        self.add(file_version="brain.Event:2", step=purge_step or 0)
        if purge_step is not None:
            start = events.SessionLog(status=events.SessionLog.START)
            self.add(session_log=start, step=purge_step)

    def add(self, **content: Any) -> None:
        """One event."""
        self.file.write(self.event(wall_time=time.time(), **content).SerializeToString())

    def write(self, step: int, values: dict[str, float]) -> None:
        """One scalar per metric."""
        scalars = []
        for name, value in values.items():
            group = "validation/" if name.startswith("validation_") else "train/"
            tag = group + name.removeprefix("validation_")
            scalars.append(self.summary.Value(tag=tag, simple_value=value))
        self.add(summary=self.summary(value=scalars), step=step)

    def close(self) -> None:
        """Finish."""
        self.file.close()


class Wandb:
    """A run of a Weights & Biases project; later starts continue it."""

    def __init__(self, folder: Path, project: str, config: dict[str, Any]) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise UserError(f"--wandb needs wandb: {install('wandb')}") from error
        try:
            self.run = wandb.init(
                project=project,
                id=id_in(folder),
                name=folder.resolve().name,
                dir=folder,
                config=config,
                resume="allow",
            )
        except Exception as error:  # its errors have no common base class
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"--wandb: cannot start a run of {project}: {reason}") from error

    def write(self, step: int, values: dict[str, float]) -> None:
        """Send all metrics at once."""
        self.run.log(values, step=step)

    def close(self) -> None:
        """Upload the rest."""
        self.run.finish()


def id_in(folder: Path) -> str:
    """The id of a folder's run: the same at each start, and different for each folder."""
    file = folder / "wandb_id.txt"
    if not file.is_file():
        write_whole(file, f"{token_hex(8)}\n".encode())
    return file.read_text().strip()


class Trackers:
    """All active trackers; one that fails is dropped."""

    def __init__(self, trackers: list[Tracker], tell: Callable[[str], None]) -> None:
        self.all, self.tell = trackers, tell

    def write(self, line: Mapping[str, int | float]) -> None:
        """A line of metrics."""
        values = {name: float(value) for name, value in line.items() if name != "step"}
        self.each(lambda tracker: tracker.write(int(line["step"]), values))

    def close(self) -> None:
        """Finish all."""
        self.each(lambda tracker: tracker.close())

    def each(self, act: Callable[[Tracker], None]) -> None:
        """Apply a function to each tracker."""
        for tracker in list(self.all):
            try:
                act(tracker)
            except Exception as error:
                self.all.remove(tracker)
                self.tell(f"stopped logging to {type(tracker).__name__}: {error}")


@contextmanager
def tracked(run: Run) -> Iterator[None]:
    """Send the metrics of a run to all available trackers.

    These are TensorBoard, if it is installed, and Weights & Biases, if a project is named.
    """
    if not run.processes.is_first:
        yield
        return
    folder, step, found = run.folder, run.trainee.step, list[Tracker]()
    with suppress(ImportError):
        try:
            found.append(TensorBoard(folder.path, step + 1 if step else None))
        except OSError as error:
            run.display.tell(f"cannot write TensorBoard events: {error}")
    if run.cfg.wandb is not None:
        found.append(Wandb(folder.path, run.cfg.wandb, to_dict(run.recipe)))
    trackers = Trackers(found, run.display.tell)
    folder.listeners.append(trackers.write)
    try:
        yield
    finally:
        folder.listeners.remove(trackers.write)
        trackers.close()
