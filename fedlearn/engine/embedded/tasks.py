"""The messages between the engine and its workers, through a pipe between two of fedlearn's own processes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedlearn.aggregation.fold_plan import FoldPlan
from fedlearn.core.cohort import Member, NodeReport
from fedlearn.core.errors import FedlearnError
from fedlearn.engine.embedded.node_store import Span
from fedlearn.engine.embedded.sharing import Directory
from fedlearn.plugins.tables import CLIENT_APP

NOBODY = -1  # in place of a node's place: no node is running
TOGETHER = -2  # in place of a node's place: all nodes of a task are trained at once


class PackedMessage(NamedTuple):
    """A Flower message to a node, as it goes through a pipe.

    Parameters
    ----------
    arrays
        Key and number of each ArrayRecord; the number is the record's place in `NewRecords`.
    records
        All other records, serialised.
    kept
        Where the node's serialised memory lies; None if the node has none.
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
    """The first message to a worker, and again when another run begins.

    Parameters
    ----------
    environment
        The engine's environment, which may have changed since the process was started that workers are forked from.
    app_folder
        The folder of a foreign client app; empty for fedlearn's own.
    seed
        The run's seed, for a foreign client app; fedlearn's own has the seed in its settings.
    stack
        How many nodes of one task are trained together, by fedlearn's own client app.
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
    """The fold plan of the blocks that follow."""

    plan: FoldPlan


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """An ArrayRecord that lies in shared memory.

    Parameters
    ----------
    arrays
        For each array: name, dtype, shape and serialisation type, in Flower's words.
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
    """Train the nodes of adjacent blocks of the cohort, check their reports, and add up the reports of each block.

    Parameters
    ----------
    lost
        Reports of members that are not run again: they have killed a worker.
    is_rest
        Whether another worker has the whole block, and runs one of its nodes that may hang.
    alone
        Whether the nodes are trained one by one, whatever ``training.stack`` says: one of them may have ended a worker,
        or may hang.
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
    parts
        The reports of each block of the fold that the task has positions of, and where the sum of these positions lies
        in the worker's shared memory.
    kept
        Where the changed memories of nodes lie, as bytes by node id.
    """

    parts: Sequence[tuple[Sequence[NodeReport], Directory]]
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
    """The result of a task that failed for a reason of the run, not of a node.

    Parameters
    ----------
    text
        One line for a FedlearnError, else a traceback.
    exit_code
        2 for a usage error, 1 for any other.
    """

    text: str
    exit_code: int

    @classmethod
    def by(cls, error: BaseException) -> Broken:
        """Return the description of an exception that is being handled."""
        if isinstance(error, FedlearnError):
            return cls(str(error), error.exit_code)
        return cls("a worker could not do its work:\n" + traceback.format_exc(), 1)


Done = BlockDone | MessagesDone | CallDone | Broken
