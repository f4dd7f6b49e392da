"""The nodes of a round: ready nodes, the cohort, the instruction of each node, and each node's fate."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Self


class Member(NamedTuple):
    """One place in a cohort.

    >>> Member(node_id=81, partition_id=3, position=0).partition_id
    3
    """

    node_id: int
    partition_id: int
    position: int


class At(NamedTuple):
    """Where a run stands: the round and its attempt, both from 1.

    >>> At(round_number=2, attempt=1).where
    {'round': 2, 'attempt': 1}
    """

    round_number: int
    attempt: int

    @property
    def where(self) -> dict[str, int]:
        """The fields of an event that happened in this attempt."""
        return {"round": self.round_number, "attempt": self.attempt}


class Fate(StrEnum):
    """How one node's part in a round ended.

    >>> Fate("late") is Fate.LATE
    True
    """

    REPORTED = "reported"  #: in time, accepted, counted
    FAILED = "failed"  #: the node answered with an error, or its process died
    REFUSED = "refused"  #: the gate did not let the report in
    LATE = "late"  #: no report had come when the reporting deadline passed


def needed_of(share: float, count: int) -> int:
    """Return how many of `count` make up a share of `count`, at least one.

    In floating point, 0.55 * 100 is a little more than 55; the result must not be 56.

    >>> needed_of(0.55, 100), needed_of(0.5, 3), needed_of(0.1, 0)
    (55, 2, 1)
    """
    return max(1, math.ceil(share * count - 1e-9))


class Instruction(NamedTuple):
    """The instruction of a node: its place in a round.

    Parameters
    ----------
    round_number, attempt
        From 1.
    position
        The node's place in the cohort, from 0. The cohort is sorted by partition id; sums run in this order.
    """

    round_number: int
    attempt: int
    position: int

    @property
    def at(self) -> At:
        """The attempt that the instruction belongs to."""
        return At(self.round_number, self.attempt)


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A node that said it is ready, its keys for a secure sum, and the name of its anchor; empty without them."""

    node_id: int
    partition_id: int
    keys: bytes = b""
    anchor: str = ""


class NodeReport(NamedTuple):
    """The server's account of one member of the cohort after a round.

    Parameters
    ----------
    num_examples
        The node's weight; 0 of a refused report, unless a comparison with its cohort was the reason.
    bytes_up
        Size of the serialised report, in bytes; 0 where no report came.
    reason
        Why the report, or one of its metrics, was not counted; empty where everything was.
    metrics
        The node's measurements, as ``{"train_loss": 1.7}``.
    raised
        Whether the node's own code has raised; `reason` is the exception then.
    norm
        L2 norm of the change, over the entries that were sent; 0 where the norm was not measured.

    Examples
    --------
    >>> NodeReport(0, Fate.REPORTED, num_examples=20, metrics={"train_loss": 1.7}).fate.value
    'reported'
    """

    position: int
    fate: Fate
    num_examples: int = 0
    bytes_up: int = 0
    reason: str = ""
    metrics: Mapping[str, float] = {}  # never changed
    raised: bool = False
    norm: float = 0.0


def raised_alike(reasons: Sequence[str]) -> bool:
    """Return whether these exceptions are the same but for numbers in their text, as the size of a last batch.

    >>> raised_alike(["ValueError: got 28 rows", "ValueError: got 7 rows"]), raised_alike([])
    (True, False)
    """
    return len({re.sub(r"\d+", "0", reason) for reason in reasons}) == 1


@dataclass(frozen=True, slots=True)
class Typical:
    """The medians of a cohort's reports, which less than half of the nodes cannot move far.

    Of two middle norms the median is the upper, as honest nodes may be of two kinds; of two middle numbers of examples
    it is the lower.

    Parameters
    ----------
    norm
        L2 norm of the change.
    num_examples
        Number of examples.
    """

    norm: float
    num_examples: int

    @classmethod
    def of(cls, reports: Sequence[NodeReport]) -> Self:
        """Return the medians of at least one report.

        >>> Typical.of([NodeReport(i, Fate.REPORTED, n, norm=n / 10) for i, n in enumerate([10, 30, 10**7])])
        Typical(norm=3.0, num_examples=30)
        """
        norm = sorted(report.norm for report in reports)[len(reports) // 2]
        num_examples = sorted(report.num_examples for report in reports)[(len(reports) - 1) // 2]
        return cls(norm if math.isfinite(norm) else 0.0, num_examples)

    def faded(self, before: Self, share: float) -> Self:
        """Return these medians, with a norm of at least `share` times the norm of `before`.

        >>> Typical(1.0, 10).faded(Typical(8.0, 20), 0.5), Typical(5.0, 10).faded(Typical(8.0, 20), 0.5)
        (Typical(norm=4.0, num_examples=10), Typical(norm=5.0, num_examples=10))
        """
        return replace(self, norm=max(self.norm, share * before.norm))
