"""Threads that each do one piece of work, instead of sharing every operation.

torch splits each operation among its threads, and waits for all of them before the next. For
thousands of small operations on independent pieces, the waiting costs more than it saves.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch


def in_threads(task: Callable[[int], None], items: Iterable[int], device: torch.device) -> None:
    """Run the task for each item: on a CPU in as many threads as torch uses, else one by one."""
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
    """The size of pieces of `count`, at most `most`, such that every thread gets as many."""
    threads = torch.get_num_threads()
    rounds = -(-count // (most * threads))
    return -(-count // (rounds * threads))
