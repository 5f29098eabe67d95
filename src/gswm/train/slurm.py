"""Runs of a sweep as jobs of a Slurm cluster, by submitit (the extra `slurm`).

When a job reaches its time limit or is preempted, its run saves a checkpoint. The job is queued
again, and resumes from there.
"""

import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.words import install
from gswm.train.sweep import Job


@dataclass
class LoggedCommand:
    """A job that runs a command and appends its output to a log."""

    words: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Run the command, and return its exit code."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        return self.process.wait()

    def checkpoint(self) -> Any:
        """Called at the time limit: let the run save, and queue the job again."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.terminate()
            self.process.wait()
        return DelayedSubmission(LoggedCommand(self.words, self.log))


class Submitted:
    """A job in the cluster's queue, with the interface of a local process."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code once it has ended; that of a signal if the cluster ended it."""
        if self.returncode is None and self.job.done():
            ended = self.job.exception() is not None
            self.returncode = -signal.SIGTERM if ended else self.job.result()
        return self.returncode

    def terminate(self) -> None:
        """Cancel it: Slurm asks the run to end, and ends it some time later."""
        self.job.cancel(check=False)

    kill = terminate

    def wait(self) -> int | None:
        """Return at once; the cluster handles it."""
        return self.poll()


def launcher(
    folder: Path, settings: Mapping[str, str], cluster: str = "slurm"
) -> Callable[[Job], Submitted]:
    """A function that submits runs; submitit keeps its files in `folder`."""
    try:
        import submitit
    except ImportError as error:
        raise UserError(f"--launcher slurm needs submitit: {install('slurm')}") from error
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise UserError(
            "--launcher slurm: sbatch not found; run this on a machine that can submit jobs"
        )
    executor = submitit.AutoExecutor(folder, cluster=cluster)
    try:
        executor.update_parameters(
            **{name: int(value) if value.isdigit() else value for name, value in settings.items()}
        )
    except (NameError, TypeError) as error:
        raise UserError(f"--slurm: {' '.join(str(error).split())}") from error

    def submit(job: Job) -> Submitted:
        executor.update_parameters(name=job.folder.name)
        return Submitted(executor.submit(LoggedCommand(list(job.command), job.log.absolute())))

    return submit
