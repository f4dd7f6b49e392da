"""Messages on their way to workers and back: ArrayRecords by shared memory, all else as bytes through a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from flwr.app import ArrayRecord, Error, Message

from fedlearn import flower
from fedlearn.engine.embedded.node_store import NodeStore
from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.sharing import Directory, SharedSlots
from fedlearn.engine.embedded.tasks import Answer, NewRecords, PackedMessage, PackedRecord
from fedlearn.engine.embedded.worker_process import WorkerProcess


class Packer:
    """Packs messages for the workers of a pool.

    Parameters
    ----------
    shared
        The shared memories of the engine's process.
    slot
        The slot of the shared memory for the ArrayRecords of the messages.
    store
        The nodes' memories.
    """

    def __init__(self, pool: WorkerPool, shared: SharedSlots, slot: int, store: NodeStore) -> None:
        self._pool = pool
        self._shared = shared
        self._slot = slot
        self._store = store

    def packed(self, messages: Sequence[Message]) -> Iterator[PackedMessage]:
        """Return the messages in a form for a pipe; each ArrayRecord goes once, by shared memory.

        The records are shared at once; each message is packed when the iterator reaches it.
        """
        if self._pool.is_quiet:
            self._store.reuse()
        records: dict[int, ArrayRecord] = {}
        numbers: dict[int, int] = {}
        for message in messages:
            for record in flower.records_of(message.content, ArrayRecord):
                numbers.setdefault(id(record), len(numbers))
                records[id(record)] = record
        self._share(list(records.values()))
        return (self._pack(message, numbers) for message in messages)

    def _pack(self, message: Message, numbers: Mapping[int, int]) -> PackedMessage:
        arrays = []
        others: dict[str, flower.Record] = {}
        for key, record in message.content.items():
            if isinstance(record, ArrayRecord):
                arrays.append((key, numbers[id(record)]))
            else:
                others[key] = record
        about = message.metadata
        return PackedMessage(
            node_id=about.dst_node_id,
            message_id=about.message_id,
            message_type=about.message_type,
            ttl=about.ttl,
            arrays=tuple(arrays),
            records=flower.to_bytes(others),
            kept=self._store.span_of(about.dst_node_id),
        )

    def _share(self, records: Sequence[ArrayRecord]) -> None:
        """Write ArrayRecords into one shared memory, and announce to the workers where each lies."""
        if not records:
            return
        lying = {
            f"{number}/{name}": np.frombuffer(array.data, np.uint8)
            for number, record in enumerate(records)
            for name, array in record.items()
        }
        directory = self._shared.write(self._slot, lying)
        spots = iter(directory.arrays)
        packed = [
            PackedRecord(
                tuple((name, array.dtype, array.shape, array.stype) for name, array in record.items()),
                Directory(directory.slot, tuple(islice(spots, len(record)))),
            )
            for record in records
        ]
        self._pool.announce("records", NewRecords(tuple(packed)))


def reply_of(answer: Answer) -> Message:
    """Return a node's reply, from a worker's answer."""
    return flower.reply_from(
        node_id=answer.node_id,
        message_type=answer.message_type,
        reply_to=answer.message_id,
        content=None if answer.error else flower.from_bytes(answer.records),
        error=Error(*answer.error) if answer.error else None,
    )


def kept_in(directory: Directory, worker: WorkerProcess) -> dict[int, bytes]:
    """Return the new memories of nodes, from a worker's shared memory: node id -> bytes."""
    return {int(node_id): data.tobytes() for node_id, data in worker.read(directory).items()}
