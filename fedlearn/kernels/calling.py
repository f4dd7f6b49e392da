"""Calls of the loops of `loops.py` on tensors, node by node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from torch import Tensor

from fedlearn.kernels import loops
from fedlearn.kernels.mapped_arrays import LINE

Sizes = tuple[int, int, int, int, int, int, int, int, int, int]
"""B, H, W, C, O, height and width of a filter, padding above and left; 1 if a relu follows, else 0."""


class _Scratch(threading.local):
    """Scratch memory of a thread for the loops; it is kept, as the first use of new memory is slow."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        self._start = 0

    def address(self, size: int) -> int:
        """Return the address of `size` bytes, at the beginning of a line of the processor's cache."""
        if len(self._bytes) < size + LINE:
            self._bytes = np.empty(size + LINE, np.uint8)
            self._start = -(-self._bytes.ctypes.data // LINE) * LINE
        return self._start


_scratch = _Scratch()


def _called(loop: Callable[..., int], sizes: Sizes, nodes: int, *tensors: Tensor) -> None:
    """Run a loop for each node; the nodes' tensors are contiguous, one after another."""
    memory = _scratch.address(_bytes_needed(loop, sizes, len(tensors)))
    starts = [each.data_ptr() for each in tensors]
    loop(*sizes, *starts, memory)
    for _ in range(nodes - 1):
        starts = [start + each.stride(0) * each.itemsize for start, each in zip(starts, tensors, strict=True)]
        loop(*sizes, *starts, memory)


@cache
def _bytes_needed(loop: Callable[..., int], sizes: Sizes, tensors: int) -> int:
    return loop(*sizes, *[0] * tensors, 0)


convolve_and_pool, weigh, spread = (
    partial(_called, each) for each in (loops.convolve_and_pool, loops.weigh, loops.spread)
)
