"""What the engine and its workers say to each other, through a pipe between two of our own processes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedlearn.engine.embedded.node_store import Span
from fedlearn.engine.embedded.sharing import Directory
from fedlearn.folding.plan import FoldPlan
from fedlearn.plugins import CLIENT_APP
from fedlearn.words.cohort import Member, NodeReport
from fedlearn.words.errors import FedlearnError

NOBODY = -1  # in place of a node: none is running
TOGETHER = -2  # in place of a node: all nodes of a task are trained at once


class PackedMessage(NamedTuple):
    """A Flower message to a node, as it goes through a pipe.

    Parameters
    ----------
    arrays
        Key and number of each ArrayRecord; the number is its place in `NewRecords`.
    records
        All other records, serialised.
    kept
        Where what the node keeps between messages lies, serialised; None if it keeps nothing.
    """

    node_id: int
    message_id: str
    message_type: str
    ttl: float
    arrays: tuple[tuple[str, int], ...]
    records: bytes
    kept: Span | None


@dataclass(frozen=True, slots=True)
class Begin:
    """The first thing a worker hears, and again when another run begins.

    Parameters
    ----------
    environment
        The engine's: the workers were forked from a process that may have been started before it was changed.
    app_folder
        Where a client app that is not ours lies; empty for ours.
    seed
        Of the run, for a client app that is not ours; ours has it in its settings.
    stack
        How many nodes of one task are trained together, by our client app.
    """

    settings: dict[str, Any]
    num_nodes: int
    environment: dict[str, str]
    client_app: str = CLIENT_APP
    app_folder: str = ""
    seed: int = 0
    stack: int = 1


@dataclass(frozen=True, slots=True)
class NewPlan:
    """How the blocks that follow are checked and added."""

    plan: FoldPlan


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """An ArrayRecord that lies in shared memory.

    Parameters
    ----------
    arrays
        For each array: its name, dtype, shape and serialisation type, in Flower's words.
    bytes_at
        Where the serialised arrays lie, in the same order.
    """

    arrays: tuple[tuple[str, str, tuple[int, ...], str], ...]
    bytes_at: Directory


@dataclass(frozen=True, slots=True)
class NewRecords:
    """The ArrayRecords of the messages that follow; many messages may share one."""

    records: tuple[PackedRecord, ...]


@dataclass(frozen=True, slots=True)
class BlockTask:
    """Run the nodes of one block, check their reports and add them up.

    Parameters
    ----------
    lost
        Reports of members that are not run again: they have killed a worker.
    is_rest
        Whether another worker has the whole block, and runs a node of it that may hang.
    alone
        Whether its nodes are trained one by one, whatever ``training.stack`` says: one of them may be what has ended a
        worker, or keeps one from ending.
    """

    block: int
    members: tuple[Member, ...]
    messages: tuple[PackedMessage, ...]
    lost: tuple[NodeReport, ...] = ()
    is_rest: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class MessagesTask:
    """Run nodes and send their replies home."""

    messages: tuple[PackedMessage, ...]


@dataclass(frozen=True, slots=True)
class CallTask:
    """Call a function with the state."""

    index: int
    reference: str
    state: Directory
    arguments: tuple[Any, ...]


Task = BlockTask | MessagesTask | CallTask


@dataclass(frozen=True, slots=True)
class BlockDone:
    """The end of a `BlockTask`.

    Parameters
    ----------
    total
        Where the sum lies, in the worker's shared memory.
    kept
        Where what nodes keep now lies, as bytes by node id; of those for which it has changed.
    """

    reports: Sequence[NodeReport]
    total: Directory
    kept: Directory


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's reply: serialised records, or Flower's error code and reason."""

    message_id: str
    node_id: int
    message_type: str
    records: bytes
    error: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class MessagesDone:
    """The end of a `MessagesTask`; `kept` as in `BlockDone`."""

    answers: Sequence[Answer]
    kept: Directory


@dataclass(frozen=True, slots=True)
class CallDone:
    """The end of a `CallTask`."""

    result: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """The worker could not do a task, for a reason that is the run's, not a node's.

    Parameters
    ----------
    text
        One line where the error is one of ours, else a traceback.
    exit_code
        2 for a usage error, 1 for any other.
    """

    text: str
    exit_code: int

    @classmethod
    def by(cls, error: BaseException) -> Broken:
        """Return what has to be said of an exception that is being handled."""
        if isinstance(error, FedlearnError):
            return cls(str(error), error.exit_code)
        return cls("a worker could not do its work:\n" + traceback.format_exc(), 1)


Done = BlockDone | MessagesDone | CallDone | Broken
