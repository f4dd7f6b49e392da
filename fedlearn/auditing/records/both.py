"""Both audits of each learner: as it is, and with each planted mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from client.learners.dp_sgd import DPSGD
from fedlearn.auditing.records.canaries import audited
from fedlearn.auditing.records.neighbors import NeighborsResult, replayed
from fedlearn.auditing.records.planted import PLANTED
from fedlearn.auditing.separation import CanaryResult

PAIRS = 200  # of neighbors, for each learner


class Audited(NamedTuple):
    """What both audits say of one learner."""

    name: str
    is_sound: bool
    exact: NeighborsResult
    seen: CanaryResult

    @property
    def is_as_expected(self) -> bool:
        """Whether a mistake was found by one of the two, or a sound learner by none."""
        return (self.exact.is_refuted or self.seen.is_refuted) is not self.is_sound


def both() -> Iterator[Audited]:
    """Yield what both audits say of the learner as it is, and of each planted mistake."""
    kinds: dict[str, Any] = {"as it is": DPSGD} | PLANTED
    for name, kind in kinds.items():
        yield Audited(name, kind is DPSGD, replayed(name, kind, pairs=PAIRS), audited(kind))
