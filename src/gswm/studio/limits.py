"""Limits of a process that works on what came from elsewhere."""

from pathlib import Path


def limit(memory: int, seconds: int, file_bytes: int) -> None:
    """Take no more than this from here on, where the system can see to it.

    Args:
        memory: bytes beyond what the process has now.
        seconds: of a processor.
        file_bytes: of any file that it writes.
    """
    try:
        import resource
    except ImportError:  # not on Windows: the parent's clock is left
        return
    pages = Path("/proc/self/statm")
    if pages.exists():
        now = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
