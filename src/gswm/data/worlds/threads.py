"""Threads: one piece of work each, rather than all of them on every operation.

torch splits each operation among its threads, and waits for all of them before the next. Where
there are thousands of small operations on independent pieces, the waiting costs more than it
saves.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch


def in_threads(task: Callable[[int], None], items: Iterable[int], device: torch.device) -> None:
    """Do the task for each item: on a CPU in as many threads as torch uses, else one by one."""
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1:
        for item in items:
            task(item)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(task, items):
                pass
    finally:
        torch.set_num_threads(threads)


def shares(count: int, most: int) -> int:
    """The size of pieces of `count`, `most` at most, of which every thread gets as many."""
    threads = torch.get_num_threads()
    rounds = -(-count // (most * threads))
    return -(-count // (rounds * threads))
