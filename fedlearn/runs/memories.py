"""Store the memories of a simulation's nodes in one file, to which the memories that change are appended.

A commit writes the memories of the nodes that took part in its round, not of all nodes. Of two entries of one node the
later one counts. When the file would become twice as long as it was when last written as a whole, it is written as a
whole again, under the name of that round.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedlearn.runs.file_names import nodes_name
from fedlearn.runs.files import write_atomically, write_from

FEWEST = 1 << 20  # bytes that are always appended
_ENTRY = struct.Struct("<QI")  # node id, length of its memory; 0: the memory is empty


def packed(memories: Iterable[tuple[int, bytes]]) -> bytes:
    """Return memories (node id, bytes) as entries of the file, in the order given."""
    return b"".join(_ENTRY.pack(node, len(data)) + data for node, data in memories)


def unpacked(data: bytes) -> dict[int, bytes]:
    """Return node id -> memory after all entries, without empty memories.

    Raises
    ------
    ValueError
        If the data end within an entry.

    >>> unpacked(packed([(7, b"a"), (2, b"b"), (7, b"c"), (2, b"")]))
    {7: b'c'}
    """
    places: dict[int, slice] = {}
    start = 0
    while start < len(data):
        if start + _ENTRY.size > len(data):
            raise ValueError("an entry is cut short")
        node, length = _ENTRY.unpack_from(data, start)
        start += _ENTRY.size + length
        if start > len(data):
            raise ValueError("a memory is cut short")
        places[node] = slice(start - length, start)
    return {node: data[place] for node, place in places.items() if place.start < place.stop}


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The file of memories as the latest store has left it.

    Parameters
    ----------
    name
        The file's name in the run folder; empty if no node keeps anything.
    size
        How many bytes count; the remains of a killed write lie behind them.
    whole
        How many bytes the file had when it was last written as a whole.
    content
        The running SHA-256 of the bytes that count.
    """

    name: str = ""
    size: int = 0
    whole: int = 0
    content: hashlib._Hash = field(default_factory=hashlib.sha256)

    @classmethod
    def of(cls, name: str, data: bytes, *, whole: int) -> MemoryFile:
        """Return the file that holds these bytes."""
        return cls(name, len(data), whole, hashlib.sha256(data))

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes that count."""
        return self.content.hexdigest()

    def takes(self, changed: bytes) -> bool:
        """Return whether changed memories are appended; if not, the file is to be written as a whole."""
        return bool(self.name) and self.size + len(changed) <= max(2 * self.whole, FEWEST)

    def plus(self, changed: bytes) -> MemoryFile:
        """Return the file after changed memories were appended."""
        content = self.content.copy()
        content.update(changed)
        return replace(self, size=self.size + len(changed), content=content)


def written(
    folder: Path, before: MemoryFile, round_number: int, changed: bytes, all_nodes: Callable[[], bytes]
) -> MemoryFile:
    """Write what the nodes keep after a round without touching the bytes that the checkpoint names; return the file.

    Parameters
    ----------
    before
        The file that the checkpoint names.
    changed
        The memories that have changed since; empty if none has.
    all_nodes
        Returns the memories of all nodes; asked only if the file is written as a whole.
    """
    if not changed:
        return before
    if before.takes(changed):
        return appended(folder, before, changed)
    data = all_nodes()
    return begun(folder, round_number, data) if data else MemoryFile()


def appended(folder: Path, before: MemoryFile, changed: bytes) -> MemoryFile:
    """Append memories that have changed to a file; return it with them."""
    write_from(folder / before.name, before.size, changed)
    return before.plus(changed)


def begun(folder: Path, round_number: int, data: bytes) -> MemoryFile:
    """Write a file of what the nodes keep, under the name of a round; return it."""
    name = nodes_name(round_number)
    write_atomically(folder / name, data)
    return MemoryFile.of(name, data, whole=len(data))
