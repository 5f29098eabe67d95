"""Compiling ahead: another process compiles the training step while this one trains.

Triton compiles our kernels in half a minute, and torch a step in minutes; the results are cached on
disk. So training starts with plain steps, while a second process compiles those of the last stage
whose gradients pass through frames, by taking one with kernels and then a compiled one, on random
videos (`rehearsal`). It says when the kernels are ready, and training uses them from then on. When
it has finished, and training has reached that stage, training compiles its steps too: it finds the
results on disk, and only has to read them.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import torch

from gswm.core.settings import to_dict
from gswm.models.recipe import Recipe

COMMAND = (sys.executable, "-m", "gswm.fast.rehearsal")


class Ahead:
    """The compiling process."""

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        tell: Callable[[str], None],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self.tell = tell
        self.failed = False
        # Both are closed by `__exit__`.
        self.ready = tempfile.TemporaryFile()  # noqa: SIM115
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        with tempfile.TemporaryFile("w+") as asked:
            json.dump({"recipe": to_dict(recipe), "device": str(device)}, asked)
            asked.seek(0)
            # The training handles Ctrl-C, and ends the compiler when it ends itself.
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=asked,
                stdout=self.ready,
                stderr=self.said,
                start_new_session=True,
            )

    def has_kernels(self) -> bool:
        """Whether our kernels are compiled: the process has said something, or is done."""
        return os.fstat(self.ready.fileno()).st_size > 0 or self.process.poll() is not None

    def ended(self) -> bool:
        """Whether it is done; reports the outcome."""
        if self.process.poll() is None:
            return False
        if code := self.process.returncode:
            self.failed = True
            self.said.seek(0)
            lines = self.said.read().strip().splitlines()
            why = lines[-1] if lines else f"exit code {code}"
            self.tell(f"steps are not compiled, since the compiler failed: {why}")
        else:
            self.tell("compiled: steps are shorter from now on")
        return True

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.ready.close()
        self.said.close()

    def end(self) -> None:
        """End the process, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
