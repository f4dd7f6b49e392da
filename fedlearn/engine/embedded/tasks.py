"""What the engine and its workers say to each other, through a pipe between two of our own processes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedlearn.cohort import Member, NodeReport
from fedlearn.engine.apps import CLIENT_APP
from fedlearn.engine.embedded.sharing import Directory
from fedlearn.errors import FedlearnError
from fedlearn.folding import FoldPlan


class Letter(NamedTuple):
    """A Flower message on its way to a node.

    Parameters
    ----------
    arrays
        Key and number of each ArrayRecord; the number is its place in `NewRecords`.
    records
        All other records, serialised.
    kept
        What the node keeps between messages, serialised.
    """

    node_id: int
    message_id: str
    message_type: str
    ttl: float
    arrays: tuple[tuple[str, int], ...]
    records: bytes
    kept: bytes


@dataclass(frozen=True, slots=True)
class Begin:
    """The first thing a worker hears, and again when another run begins.

    Parameters
    ----------
    environment
        The engine's: the workers were forked from a process that may have been started before it was changed.
    """

    settings: dict[str, Any]
    num_nodes: int
    environment: dict[str, str]
    client_app: str = CLIENT_APP


@dataclass(frozen=True, slots=True)
class NewPlan:
    """How the blocks that follow are checked and added."""

    plan: FoldPlan


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """An ArrayRecord that lies on a board.

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
    """The ArrayRecords of the letters that follow; many letters may share one."""

    records: tuple[PackedRecord, ...]


@dataclass(frozen=True, slots=True)
class BlockTask:
    """Run the nodes of one block, check their reports and add them up.

    Parameters
    ----------
    lost
        Reports of members that are not run again: they have killed a worker.
    """

    block: int
    members: tuple[Member, ...]
    letters: tuple[Letter, ...]
    lost: tuple[NodeReport, ...] = ()


@dataclass(frozen=True, slots=True)
class LettersTask:
    """Run nodes and send their replies home."""

    letters: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class CallTask:
    """Call a function with the state."""

    index: int
    reference: str
    state: Directory
    arguments: tuple[Any, ...]


Task = BlockTask | LettersTask | CallTask


@dataclass(frozen=True, slots=True)
class BlockDone:
    """The end of a `BlockTask`."""

    reports: Sequence[NodeReport]
    total: Directory
    kept: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's reply: serialised records, or Flower's error code and reason."""

    message_id: str
    node_id: int
    message_type: str
    records: bytes
    error: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class LettersDone:
    """The end of a `LettersTask`."""

    answers: Sequence[Answer]
    kept: dict[int, bytes]


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


Done = BlockDone | LettersDone | CallDone | Broken
