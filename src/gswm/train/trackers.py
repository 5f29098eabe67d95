"""A run's metrics once more, for TensorBoard and Weights & Biases, where these are installed.

metrics.jsonl is what counts. Whatever goes wrong here is said in one line, and training goes on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, runtime_checkable

from gswm.core.errors import UserError
from gswm.core.files import write_whole
from gswm.core.settings import to_dict
from gswm.train.loop import Run


@runtime_checkable
class Tracker(Protocol):
    """Takes one line of metrics after the other."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add the metrics of a step."""
        ...

    def close(self) -> None:
        """Nothing follows."""
        ...


class TensorBoard:
    """Events in the run's folder; those of an earlier start from step `purge_step` on are void."""

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder), purge_step=purge_step, flush_secs=20)

    def write(self, step: int, values: dict[str, float]) -> None:
        """One scalar per metric."""
        for name, value in values.items():
            group = "validation/" if name.startswith("validation_") else "train/"
            self.writer.add_scalar(group + name.removeprefix("validation_"), value, step)

    def close(self) -> None:
        """Flush."""
        self.writer.close()


class Wandb:
    """A run of a Weights & Biases project; a later start goes on with it."""

    def __init__(self, folder: Path, project: str, config: dict[str, Any]) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise UserError("--wandb needs wandb: pip install 'gswm[wandb]'") from error
        self.run = wandb.init(
            project=project,
            id=id_in(folder),
            name=folder.resolve().name,
            dir=folder,
            config=config,
            resume="allow",
        )

    def write(self, step: int, values: dict[str, float]) -> None:
        """All at once."""
        self.run.log(values, step=step)

    def close(self) -> None:
        """Upload the rest."""
        self.run.finish()


def id_in(folder: Path) -> str:
    """The id of a folder's run: the same at each start, and no other folder's."""
    file = folder / "wandb_id.txt"
    if not file.is_file():
        write_whole(file, f"{token_hex(8)}\n".encode())
    return file.read_text().strip()


class Trackers:
    """Those that there are; one that fails is left out from then on."""

    def __init__(self, trackers: list[Tracker], tell: Callable[[str], None]) -> None:
        self.all, self.tell = trackers, tell

    def write(self, line: Mapping[str, int | float]) -> None:
        """A line of metrics."""
        values = {name: float(value) for name, value in line.items() if name != "step"}
        self.each(lambda tracker: tracker.write(int(line["step"]), values))

    def close(self) -> None:
        """Nothing follows."""
        self.each(lambda tracker: tracker.close())

    def each(self, act: Callable[[Tracker], None]) -> None:
        """Have each do it."""
        for tracker in list(self.all):
            try:
                act(tracker)
            except Exception as error:
                self.all.remove(tracker)
                self.tell(f"no more metrics for {type(tracker).__name__}: {error}")


@contextmanager
def tracked(run: Run) -> Iterator[None]:
    """While a run goes on, tell its metrics to all trackers that there are.

    These are TensorBoard, where it is installed, and Weights & Biases, where a project is named.
    """
    if not run.processes.is_first:
        yield
        return
    folder, step, found = run.folder, run.trainee.step, list[Tracker]()
    with suppress(ImportError):
        try:
            found.append(TensorBoard(folder.path, step + 1 if step else None))
        except OSError as error:
            run.display.tell(f"no events for TensorBoard: {error}")
    if run.cfg.wandb is not None:
        found.append(Wandb(folder.path, run.cfg.wandb, to_dict(run.recipe)))
    trackers = Trackers(found, run.display.tell)
    folder.listeners.append(trackers.write)
    try:
        yield
    finally:
        folder.listeners.remove(trackers.write)
        trackers.close()
