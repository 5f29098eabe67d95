"""Compiling ahead: another process compiles the steps of a training while this one takes them.

To compile a step takes minutes, and what comes out is kept on disk. So a training begins with
steps as they are, and a second process compiles those of the last stage in which gradients go
through frames, by taking one with random videos. When it has ended, and the training is at that
stage, the training compiles them too: it finds them made, and only has to read them.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from gswm.core.devices import tf32
from gswm.core.settings import from_dict, to_dict
from gswm.data.batches.resident import Resident
from gswm.data.batches.windows import Windows
from gswm.data.storage.stored import StoredEpisodes
from gswm.fast.deferred import Backward, Deferred
from gswm.models.registry import Recipe, build
from gswm.train.distributed import Processes
from gswm.train.step import Trainee

COMMAND = (sys.executable, "-m", "gswm.fast.ahead")
NICE = 5
"""How much the compiler stands back for the training."""
VIDEOS = 32


class Ahead:
    """The other process, and what is to be compiled when it has ended."""

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        backward: Deferred,
        tell: Callable[[str], None],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self.backward, self.tell = backward, tell
        self.failed = False
        # It is closed by `__exit__`.
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        with tempfile.TemporaryFile("w+") as asked:
            json.dump({"recipe": to_dict(recipe), "device": str(device)}, asked)
            asked.seek(0)
            # Ctrl-C is for the training, which ends the compiler when it ends itself.
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.DEVNULL,
                stderr=self.said,
                start_new_session=True,
            )

    def __call__(self) -> Deferred | None:
        """The compiled backward pass, as soon as there is one."""
        if self.process is None or self.process.poll() is None:
            return None
        code, self.process = self.process.returncode, None
        if code:
            self.failed = True
            self.said.seek(0)
            lines = self.said.read().strip().splitlines()
            why = lines[-1] if lines else f"exit code {code}"
            self.tell(f"steps stay as they are, since the compiler failed: {why}")
            return None
        self.tell("compiled: from here on steps are shorter")
        self.backward.compile()
        return self.backward

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        """End the other process, if it still runs."""
        self.end()
        self.said.close()

    def end(self) -> None:
        """End the other process, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def compile_step(recipe: Recipe, device: torch.device) -> None:
    """Take a step of the last stage in which gradients go through frames, compiled."""
    if device.index is not None:
        torch.cuda.set_device(device)
    torch.manual_seed(recipe.seed)
    model = build(recipe).to(device)
    compiled = Deferred.for_device(model).compile()
    trainee = rehearsal(model, recipe, device, compiled, capture=device.type == "cuda")
    trainee.step = trainee.to_compile
    trainee.clock.fill_(trainee.step)
    trainee.advance()


def rehearsal(
    model: Any, recipe: Recipe, device: torch.device, backward: Backward, *, capture: bool
) -> Trainee:
    """A model that is to be trained as the recipe says, but with a few random videos."""
    length = max(frames for _, frames in recipe.model.schedule.lengths)
    size = recipe.model.image_size
    shape = (VIDEOS, length, size, size, 3)
    video = torch.randint(256, shape, dtype=torch.uint8, device=device)
    windows = Windows(VIDEOS, length, recipe.train.batch, device=device)
    return Trainee(
        model,
        Resident(StoredEpisodes(video), windows, length, {}),
        recipe.train,
        seed=recipe.seed,
        device=device,
        processes=Processes(),
        backward=backward,
        capture=capture,
    )


def main() -> None:
    """Compile what standard input says."""
    os.nice(NICE)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    asked = json.load(sys.stdin)
    try:
        with tf32(True):
            compile_step(from_dict(Recipe, asked["recipe"]), torch.device(asked["device"]))
    except Exception as error:
        first = (str(error).strip() or "it does not say why").splitlines()[0]
        sys.exit(f"{type(error).__name__}: {first}")


def end_with(parent: int) -> None:
    """A training that was killed has nobody to end this process."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
