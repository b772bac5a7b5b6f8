"""What needs more memory than there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

try:
    import resource
except ModuleNotFoundError:  # not on Windows
    resource = None


def is_out_of_memory(error: Exception) -> bool:
    """Whether the memory of a GPU or of the machine was not enough; torch says so in several ways."""
    said = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in said)


@contextmanager
def within_memory() -> Iterator[None]:
    """While it lasts, memory that is not there is an error at once; else the whole machine would wait for it.

    On Linux, the process may grow by what is free and no further. Elsewhere it does nothing.
    """
    most = None if resource is None else _most(resource.getpagesize())
    if resource is None or most is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if soft == resource.RLIM_INFINITY else min(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _most(page: int) -> int | None:
    """How large the process is with all that is free, in bytes; None where that is not to be known."""
    try:
        free = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(Path("/proc/self/statm").read_text().split()[0]) * page + int(free.split()[1]) * 1024
    except (OSError, StopIteration):
        return None
