"""Keeps the memory of the server close to what it uses.

The temporary tensors of an imagined piece have up to tens of megabytes, and what pages keep of the
piece is allocated between them. When the temporary tensors are freed, glibc keeps their memory for
later, in a separate arena for each thread. There it is fragmented: the process grows although it
uses no more than before.

A single arena lets threads reuse each other's free memory, and trimming returns it to the system.
(Mapping each large tensor separately would also help, but imagining 16 futures then takes 30 %
longer.)
"""

import ctypes
import time
from collections.abc import Callable

M_ARENA_MAX = -8
"""From glibc's malloc.h."""
PAUSE = 10.0
"""Minimum number of seconds between trims during work. One takes tens of milliseconds, and memory
that is needed again has to be mapped again."""


def function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None if it has none of this name, as on macOS and Windows."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


def use_one_arena() -> None:
    """Have threads that start from now on allocate in the arena of the main thread."""
    if (mallopt := function("mallopt")) is not None:
        mallopt(M_ARENA_MAX, 1)


class Trimmer:
    """Returns free memory to the system."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.last = clock, clock()
        self.malloc_trim = function("malloc_trim")

    def now_and_then(self) -> None:
        """Trim, unless the last time was recently."""
        if self.clock() - self.last >= PAUSE:
            self.trim()

    def trim(self) -> None:
        """Trim now."""
        if self.malloc_trim is not None:
            self.malloc_trim(0)
        self.last = self.clock()
