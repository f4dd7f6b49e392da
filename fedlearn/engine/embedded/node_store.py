"""The memories of all nodes, in shared memory that every worker sees.

A task says where a node's bytes lie (`Span`); the bytes do not go through the pipe. A node's new memory is written to
another place than the old one, since a worker may still be reading the old one: a place is used again only when no
worker reads it any more, which the engine says by `reuse`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping
from typing import NamedTuple

from fedlearn.engine.embedded.sharing import ALIGNMENT, SharedMemory

SEGMENT = 1 << 28  # bytes of one shared memory; pages that were never written take no memory


class Span(NamedTuple):
    """Where one node's bytes lie, in the shared memory of a slot."""

    slot: int
    start: int
    size: int

    def read(self, memory: SharedMemory) -> bytes:
        """Return a copy of the bytes."""
        return memory.memory[self.start : self.start + self.size]


class NodeStore(MutableMapping[int, bytes]):
    """Node id -> the memory of that node, returned as a copy.

    Places are as long as the next power of two, so that a freed place fits memories of about the same length. The rest
    of a place is never written, and takes no memory beyond its last page.

    Parameters
    ----------
    first_slot
        The slot of the first shared memory; later ones take the slots after it.
    made
        Called with every new shared memory, before it is written, so that the readers can get it.
    """

    def __init__(self, first_slot: int, made: Callable[[SharedMemory], None]) -> None:
        self._first_slot = first_slot
        self._made = made
        self._segments: list[SharedMemory] = []
        self._end = 0  # where the places of the last segment end
        self._spans: dict[int, Span] = {}  # by node id
        self._replaced: list[Span] = []
        self._free: defaultdict[int, list[Span]] = defaultdict(list)  # by length of the place

    def span_of(self, node_id: int) -> Span | None:
        """Return where a node's bytes lie; None for a node without a memory."""
        return self._spans.get(node_id)

    def reuse(self) -> None:
        """Free the places of replaced memories, which no worker reads any more."""
        for span in self._replaced:
            self._free[_room_for(span.size)].append(span)
        self._replaced.clear()

    def close(self) -> None:
        """Drop all shared memories; the store is empty then."""
        for kept in (self._segments, self._spans, self._replaced, self._free):
            kept.clear()

    def __getitem__(self, node_id: int) -> bytes:
        """Return a copy of a node's memory."""
        span = self._spans[node_id]
        return span.read(self._segments[span.slot - self._first_slot])

    def __setitem__(self, node_id: int, data: bytes) -> None:
        """Replace a node's memory."""
        if node_id in self._spans:
            del self[node_id]
        slot, start = self._place(_room_for(len(data)))
        self._segments[slot - self._first_slot].memory[start : start + len(data)] = data
        self._spans[node_id] = Span(slot, start, len(data))

    def __delitem__(self, node_id: int) -> None:
        """Remove a node's memory."""
        self._replaced.append(self._spans.pop(node_id))

    def __contains__(self, node_id: object) -> bool:
        """Return whether a node has a memory."""
        return node_id in self._spans

    def __iter__(self) -> Iterator[int]:
        """Iterate over the ids of the nodes with a memory."""
        return iter(self._spans)

    def __len__(self) -> int:
        """Return how many nodes have a memory."""
        return len(self._spans)

    def _place(self, room: int) -> tuple[int, int]:
        """Return slot and start of a place that no worker reads."""
        if self._free[room]:
            left = self._free[room].pop()
            return left.slot, left.start
        if not self._segments or self._end + room > self._segments[-1].size:
            self._segments.append(SharedMemory(self._first_slot + len(self._segments), max(SEGMENT, room)))
            self._made(self._segments[-1])
            self._end = 0
        start = self._end
        self._end += room
        return self._segments[-1].slot, start


def _room_for(size: int) -> int:
    """Return the length of the place for `size` bytes.

    >>> _room_for(1), _room_for(65), _room_for(128), _room_for(0)
    (64, 128, 128, 64)
    """
    return max(ALIGNMENT, 1 << max(size - 1, 0).bit_length())
