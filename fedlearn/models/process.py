"""What a process that trains sets for itself, once."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import torch

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names of these options, malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc takes no more
KEPT_WHEN_FREED = 512 << 20  # bytes


_threads_before: int | None = None  # those that torch had when this process began to train


def prepare_to_train() -> None:
    """Use one thread, and keep freed memory.

    One thread a process: the same bytes on every engine, whatever the number of cores. Left alone, glibc gives the
    memory of a step's activations back to the kernel and maps it anew in the next step: a round of the small CNN then
    takes 1.3 times as long.
    """
    global _threads_before
    if _threads_before is None:
        _threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    _keep_freed_memory()


def threads_as_before() -> None:
    """Give torch back the number of threads that it had before `prepare_to_train`."""
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
