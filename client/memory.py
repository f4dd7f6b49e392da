"""What one node keeps from message to message, in Flower's ``Context.state``: its memory and its status.

In a simulation both stay there: the engine keeps the state of its nodes, and the checkpoint of the run holds it. On a
network the memory lies in a file of the node (`client.owner.memory_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict

from fedlearn import flower, wire
from fedlearn.core.state import State
from fedlearn.flower import Record

STATUS = "node"  # name of the record of the status in a context's state
TEXTS = "memory"  # name of the record of texts in a context's state
ARRAYS = "memory."  # what the names of the records of arrays there begin with


@dataclass(slots=True)
class NodeMemory:
    """A node's memory; learners and mods change it in place.

    Parameters
    ----------
    texts
        Name -> text, as ``{"ledger": "{...}"}``.
    arrays
        Name -> named arrays, as ``{"residual": {"fc1.weight": ...}}``; each is read-only: put others in its place.
    secrets
        Name -> bytes that no checkpoint of a simulation holds: the keys of a secure sum.

    Examples
    --------
    >>> memory = NodeMemory()
    >>> memory.texts["seen"] = "20"
    >>> memory
    NodeMemory(texts={'seen': '20'}, arrays={})
    """

    texts: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, State] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)


def memory_of(context: Context) -> NodeMemory:
    """Return what the node has kept; an empty memory at first."""
    return memory_in(context.state)


def memory_in(records: RecordDict) -> NodeMemory:
    """Return the memory in the records of a node."""
    memory = NodeMemory()
    for key, record in records.items():
        if key == TEXTS:
            memory.texts = {name: str(text) for name, text in record.items()}
        elif key == wire.SECRETS and isinstance(record, ConfigRecord):
            memory.secrets = {name: secret for name, secret in record.items() if isinstance(secret, bytes)}
        elif key.startswith(ARRAYS) and isinstance(record, ArrayRecord):
            memory.arrays[key.removeprefix(ARRAYS)] = wire.unpack_arrays(record)
    return memory


def keep(context: Context, memory: NodeMemory) -> None:
    """Store this memory in place of the one before."""
    records: dict[str, Record] = {ARRAYS + name: wire.pack_arrays(state) for name, state in memory.arrays.items()}
    if memory.texts:
        records[TEXTS] = ConfigRecord(dict(memory.texts))
    if memory.secrets:
        records[wire.SECRETS] = ConfigRecord(dict(memory.secrets))
    put_records(context, records)


def records_of(context: Context) -> dict[str, Record]:
    """Return the records that the memory is."""
    return {key: record for key, record in context.state.items() if _is_memory(key)}


def put_records(context: Context, records: Mapping[str, Record]) -> None:
    """Put other records in place of those that the memory is."""
    for key in [key for key in context.state if _is_memory(key)]:
        del context.state[key]
    for key in sorted(records):
        context.state[key] = records[key]


def _is_memory(key: str) -> bool:
    return key in (TEXTS, wire.SECRETS) or key.startswith(ARRAYS)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the node is doing in the server's protocol; no result depends on it.

    A node is *ready*, or *active* while it trains. It becomes active with an instruction, and ready again when its
    report is sent or the server says that the round is over for it.

    Parameters
    ----------
    active
        The node has an instruction and has not sent its report.
    rounds_trained
        Reports made so far.
    told
        What the server last said of the node's part in a round, as ``"rejected"``.
    """

    active: bool = False
    rounds_trained: int = 0
    told: str = ""

    @classmethod
    def of(cls, context: Context) -> NodeStatus:
        """Return the status in a context; that of a new node if there is none."""
        record = context.state.get(STATUS)
        return cls() if record is None else cls(**record)

    def keep(self, context: Context, **changes: object) -> None:
        """Store this status with some fields changed, if that changes it."""
        now = {"active": self.active, "rounds_trained": self.rounds_trained, "told": self.told}
        if now | changes != now:
            flower.filled(context.state, {STATUS: flower.filled(ConfigRecord(), now | changes)})
