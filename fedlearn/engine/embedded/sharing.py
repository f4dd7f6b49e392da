"""Arrays in memory that two processes see.

A board is a piece of anonymous memory (``memfd_create``, or an unlinked temporary file where there is none). It never
has a name, so no kill can leave it behind: it is gone when the last process that mapped it is gone. Whoever writes a
board makes it; the other side gets its file descriptor through the pipe.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import NamedTuple

import numpy as np

from fedlearn.state import Array

ALIGNMENT = 64  # bytes; a cache line, and what vector instructions like


class Placed(NamedTuple):
    """Where one array lies on a board.

    A tuple, because a block's result names twenty of them, and a dataclass with slots takes ten times as long through
    a pipe.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Directory:
    """What lies on a board: small enough to go through a pipe."""

    board: int
    arrays: tuple[Placed, ...]


class Board:
    """Shared memory for named arrays.

    Parameters
    ----------
    slot
        Its place among the boards of its writer; a larger board of the same slot replaces it.
    size
        In bytes.
    descriptor
        Of a board that another process made; None makes a new one. The board closes it.
    """

    def __init__(self, slot: int, size: int, descriptor: int | None = None) -> None:
        self.slot = slot
        self.size = size
        self.descriptor = _new_memory(size) if descriptor is None else descriptor
        weakref.finalize(self, os.close, self.descriptor)  # the memory itself goes with its last view
        self.memory = mmap.mmap(self.descriptor, size)

    def write(self, arrays: Mapping[str, Array]) -> Directory:
        """Copy arrays onto the board."""
        placed = []
        start = 0
        for name, array in arrays.items():
            spot = Placed(name, array.dtype.str, tuple(array.shape), start)
            np.copyto(self._view(spot), array)
            placed.append(spot)
            start += _aligned(array.nbytes)
        return Directory(self.slot, tuple(placed))

    def read(self, directory: Directory) -> dict[str, Array]:
        """Return the arrays as views of the board; they change when it is written again."""
        return {spot.name: self._view(spot) for spot in directory.arrays}

    def _view(self, spot: Placed) -> Array:
        return np.ndarray(spot.shape, spot.dtype, self.memory, spot.start)


class Boards:
    """The boards that this process writes, one for each slot, grown as needed.

    Parameters
    ----------
    made
        Called with every board that is made, before anything lies on it: the readers have to get it.
    """

    def __init__(self, made: Callable[[Board], None]) -> None:
        self._made = made
        self._boards: dict[int, Board] = {}  # by slot

    def write(self, slot: int, arrays: Mapping[str, Array]) -> Directory:
        """Write arrays onto the board of a slot; nobody may still be reading it."""
        needed = sum(_aligned(array.nbytes) for array in arrays.values())
        board = self._boards.get(slot)
        if board is None or board.size < needed:
            board = self._boards[slot] = Board(slot, max(needed, mmap.PAGESIZE))
            self._made(board)
        return board.write(arrays)


def hand_over(board: Board, reader: Connection, pid: int) -> None:
    """Let another process see a board; it takes it with `NewBoard.receive`."""
    reader.send(NewBoard(board.slot, board.size))
    send_handle(reader, board.descriptor, pid)


@dataclass(frozen=True, slots=True)
class NewBoard:
    """Announces that a file descriptor follows."""

    slot: int
    size: int

    def receive(self, pipe: Connection) -> Board:
        """Return the board whose descriptor comes next."""
        return Board(self.slot, self.size, recv_handle(pipe))


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
