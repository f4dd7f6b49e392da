"""Settings of a process that trains: threads and memory, once for each process."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import torch

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names of these options, malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; the most that glibc accepts
KEPT_WHEN_FREED = 512 << 20  # bytes


_threads_before: int | None = None  # torch's number of threads before this process began to train
_was_prepared = False


def prepare_to_train() -> None:
    """Set torch to one thread, and glibc to keep freed memory.

    With one thread in each process, every engine gives the same bytes, whatever the number of cores. By default glibc
    returns the memory of a step's activations to the kernel and maps it again in the next step: a round of the small
    CNN then takes 1.3 times as long.
    """
    global _threads_before, _was_prepared
    _was_prepared = True
    if _threads_before is None:
        _threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    _keep_freed_memory()


def prepare_again() -> None:
    """Prepare the process once more, if a model was made in it before: a model that is cached is not made again."""
    if _was_prepared:
        prepare_to_train()


def threads_as_before() -> None:
    """Restore torch's number of threads from before `prepare_to_train`."""
    global _threads_before
    if _threads_before is not None:
        torch.set_num_threads(_threads_before)
        _threads_before = None


@cache
def _keep_freed_memory() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # glibc; musl has none
            libc.mallopt(MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
            libc.mallopt(TRIM_THRESHOLD, KEPT_WHEN_FREED)
