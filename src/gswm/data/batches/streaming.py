"""Training batches from a file that is too large for the device, read ahead in order."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors, tensors
from gswm.data.batches.resident import Loader
from gswm.data.batches.windows import Windows
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.stored import StoredEpisodes


class Streaming(Loader):
    """Episodes in a file; threads read ahead, and copies to the device overlap with training.

    A batch cannot be captured in a CUDA graph. All calls to CUDA are made by the caller's thread,
    so that they do not disturb a capture.
    """

    def __init__(
        self,
        file: FrameFile,
        windows: Windows,
        length: int,
        data: dict[str, Any],
        *,
        workers: int = 4,
        ahead: int = 8,
    ) -> None:
        super().__init__(windows, length, data)
        if workers < 1 or ahead < 1:
            raise UserError(f"{workers} workers, reading {ahead} ahead: both must be at least 1")
        self._file = file
        self._on_host = replace(windows, device="cpu")
        self._threads = ThreadPoolExecutor(workers, "gswm-read")
        self._num_slots = ahead + 1
        self._device = torch.device(windows.device)
        self._cuda = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if self._cuda else None
        self._copied = [torch.cuda.Event() for _ in range(self._num_slots)] if self._cuda else []
        self._reading: dict[int, Future[None]] = {}
        self._reading_length = 0

    def close(self) -> None:
        """Stop reading; the loader cannot be used afterwards."""
        self._stop()
        self._threads.shutdown()
        self._file.close()

    def _gather(self, step: int | Int64[Tensor, ""], length: int) -> StoredEpisodes:
        if not isinstance(step, int):
            raise UserError("a streaming loader needs the step as an int, not as a tensor")
        if step not in self._reading or length != self._reading_length:
            self._restart(length)
        for next_step in range(step, step + self._num_slots - 1):
            if next_step not in self._reading:
                self._submit(next_step)
        try:
            self._reading.pop(step).result()
        except BaseException:
            self._stop()
            raise
        return self._to_device(step % self._num_slots)

    def _restart(self, length: int) -> None:
        """Discard windows that were read ahead, and read windows of `length` from now on."""
        self._stop()
        if length != self._reading_length:
            self._on_host.check(length)
            self._buffers = [
                self._file.form.room(self._on_host.rows, length, pin_memory=self._cuda)
                for _ in range(self._num_slots)
            ]
            self._reading_length = length

    def _stop(self) -> None:
        for future in self._reading.values():
            future.cancel()
        for future in self._reading.values():
            if not future.cancelled():
                future.exception()
        self._reading = {}

    def _submit(self, step: int) -> None:
        slot = step % self._num_slots
        if self._copied:
            self._copied[slot].synchronize()
        episodes, starts = self._on_host.at(step, self._reading_length)
        windows = list(zip(episodes.tolist(), starts.tolist(), strict=True))
        self._reading[step] = self._threads.submit(self._read, windows, self._buffers[slot])

    def _read(self, windows: list[tuple[int, int]], out: StoredEpisodes) -> None:
        for row, (episode, start) in enumerate(windows):
            self._file.read(episode, start, out, row)

    def _to_device(self, slot: int) -> StoredEpisodes:
        if self._stream is None:
            return map_tensors(torch.clone, self._buffers[slot])
        with torch.cuda.stream(self._stream):
            found = map_tensors(
                lambda tensor: tensor.to(self._device, non_blocking=True), self._buffers[slot]
            )
            self._copied[slot].record()
        now = torch.cuda.current_stream(self._device)
        now.wait_stream(self._stream)
        for tensor in tensors(found):
            tensor.record_stream(now)
        return found
