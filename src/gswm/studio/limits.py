"""Limits on the resources of the current process."""

from pathlib import Path


def limit(memory: int, seconds: int, file_bytes: int) -> None:
    """Limit the resources of this process from now on, if the system supports it.

    Args:
        memory: bytes beyond the current usage.
        seconds: processor time.
        file_bytes: size of each file that it writes.
    """
    try:
        import resource
    except ImportError:  # on Windows only the parent's timeout applies
        return
    pages = Path("/proc/self/statm")
    if pages.exists():
        now = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
