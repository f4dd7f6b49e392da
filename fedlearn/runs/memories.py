"""What the nodes of a simulation keep, as a checkpoint holds it: a file to which the memories that change are appended.

A commit writes those of the nodes that it was about, not of all that ever took part. Of two entries of one node the
later one counts. When the file would be twice as long as when it was last written as a whole, it is written so again,
under the name of that round.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedlearn.runs.files import write_atomically, write_from
from fedlearn.runs.names import nodes_name

FEWEST = 1 << 20  # bytes that are always appended
_ENTRY = struct.Struct("<QI")  # node id, length of what it keeps; 0: it has forgotten all


def packed(memories: Iterable[tuple[int, bytes]]) -> bytes:
    """Return nodes' memories as entries of the file, in the order given."""
    return b"".join(_ENTRY.pack(node, len(data)) + data for node, data in memories)


def unpacked(data: bytes) -> dict[int, bytes]:
    """Return what each node keeps after all entries.

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
    """The file, as far as a commit has written it.

    Parameters
    ----------
    name
        Within the run folder; empty where no node keeps anything.
    size
        How many bytes count; what a kill has left lies behind them.
    whole
        How many there were when it was last written as a whole.
    content
        The running SHA-256 of those that count.
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
        """That of the bytes that count."""
        return self.content.hexdigest()

    def takes(self, changed: bytes) -> bool:
        """Return whether what has changed is appended; else all is to be written anew."""
        return bool(self.name) and self.size + len(changed) <= max(2 * self.whole, FEWEST)

    def plus(self, changed: bytes) -> MemoryFile:
        """Return the file to which that has been appended."""
        content = self.content.copy()
        content.update(changed)
        return replace(self, size=self.size + len(changed), content=content)


def written(
    folder: Path, before: MemoryFile, round_number: int, changed: bytes, all_nodes: Callable[[], bytes]
) -> MemoryFile:
    """Write what the nodes keep after a round, beside or behind what the checkpoint names; return its file.

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
