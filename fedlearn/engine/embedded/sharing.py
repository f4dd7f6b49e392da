"""Arrays in memory that two processes share.

A shared memory is anonymous (``memfd_create``, or an unlinked temporary file on systems without it). It never has a
name, so no kill can leave it behind: it is gone when the last process that mapped it is gone. The writer makes it; the
reader gets its file descriptor through the pipe.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import NamedTuple

import numpy as np

from fedlearn.core.state import Array

ALIGNMENT = 64  # bytes; a cache line, and a good alignment for vector instructions


class Placed(NamedTuple):
    """Where one array lies in a shared memory.

    A tuple, because a block's result names twenty of them, and a dataclass with slots takes ten times as long through
    a pipe.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Directory:
    """The places of the arrays in the shared memory of a slot: small enough to go through a pipe."""

    slot: int
    arrays: tuple[Placed, ...]


class SharedMemory:
    """Memory for named arrays that other processes see.

    Parameters
    ----------
    slot
        The number of the memory among those of its writer; a larger memory of the same slot replaces it.
    size
        Size in bytes; pages that were never written take no memory.
    descriptor
        File descriptor of a memory that another process made; None makes a new memory. It is closed with this object.
    """

    def __init__(self, slot: int, size: int, descriptor: int | None = None) -> None:
        self.slot = slot
        self.size = size
        self.descriptor = _new_memory(size) if descriptor is None else descriptor
        weakref.finalize(self, os.close, self.descriptor)  # the memory itself goes with its last view
        self.memory = mmap.mmap(self.descriptor, size)

    def write(self, arrays: Mapping[str, Array], *, start: int = 0) -> Directory:
        """Copy arrays into the memory, one after the other, from byte `start` on."""
        placed = []
        for name, array in arrays.items():
            spot = Placed(name, array.dtype.str, tuple(array.shape), start)
            np.copyto(self._view(spot), array)
            placed.append(spot)
            start += _aligned(array.nbytes)
        return Directory(self.slot, tuple(placed))

    def read(self, directory: Directory) -> dict[str, Array]:
        """Return the arrays as views of the memory; they change when the memory is written again."""
        return {spot.name: self._view(spot) for spot in directory.arrays}

    def _view(self, spot: Placed) -> Array:
        return np.ndarray(spot.shape, spot.dtype, self.memory, spot.start)


class SharedSlots:
    """The shared memories that this process writes, one for each slot, enlarged as needed.

    Parameters
    ----------
    made
        Called with every new shared memory, before it is written, so that the readers can get it.
    """

    def __init__(self, made: Callable[[SharedMemory], None]) -> None:
        self._made = made
        self._memories: dict[int, SharedMemory] = {}  # by slot

    def write(self, slot: int, arrays: Mapping[str, Array]) -> Directory:
        """Write arrays into the memory of a slot, which no process may still be reading."""
        return self.write_groups(slot, [arrays])[0]

    def write_groups(self, slot: int, groups: Sequence[Mapping[str, Array]]) -> list[Directory]:
        """Write groups of arrays as `write` does, one behind the other; return where each group lies."""
        sizes = [sum(_aligned(array.nbytes) for array in arrays.values()) for arrays in groups]
        needed = sum(sizes)
        memory = self._memories.get(slot)
        if memory is None or memory.size < needed:
            memory = self._memories[slot] = SharedMemory(slot, max(needed, mmap.PAGESIZE))
            self._made(memory)
        starts = accumulate(sizes, initial=0)
        return [memory.write(arrays, start=start) for arrays, start in zip(groups, starts, strict=False)]

    def close(self) -> None:
        """Drop all shared memories."""
        self._memories.clear()


def hand_over(memory: SharedMemory, reader: Connection, pid: int) -> None:
    """Send a shared memory to another process, which takes it with `NewSharedMemory.receive`."""
    reader.send(NewSharedMemory(memory.slot, memory.size))
    send_handle(reader, memory.descriptor, pid)


@dataclass(frozen=True, slots=True)
class NewSharedMemory:
    """Announces that the file descriptor of a shared memory follows."""

    slot: int
    size: int

    def receive(self, pipe: Connection) -> SharedMemory:
        """Return the shared memory whose descriptor comes next."""
        return SharedMemory(self.slot, self.size, recv_handle(pipe))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _new_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fedlearn")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, size)
    return descriptor
