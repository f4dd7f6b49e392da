"""What a process that trains sets for itself, once."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import torch

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names of these options, malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc takes no more
KEPT_WHEN_FREED = 512 << 20  # bytes


def prepare_to_train() -> None:
    """Use one thread, and keep freed memory.

    One thread a process: the same bytes on every engine, whatever the number of cores. Left alone, glibc gives the
    memory of a step's activations back to the kernel and maps it anew in the next step: a round of the small CNN then
    takes 1.3 times as long.
    """
    torch.set_num_threads(1)
    _keep_freed_memory()


@cache
def _keep_freed_memory() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # glibc; musl has none
            libc.mallopt(MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
            libc.mallopt(TRIM_THRESHOLD, KEPT_WHEN_FREED)
