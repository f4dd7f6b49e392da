"""Entries of a ledger: bookings of the costs of questions, publications of their answers, and sums of bookings."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds
from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, summed


@dataclass(frozen=True, slots=True)
class Booking:
    """The cost of a question, whether or not it was answered.

    Parameters
    ----------
    question : str
        Digest of everything that the answer depends on, beside data and noise.
    run : str
        Digest of the settings that all questions of a run share; ``/SHARE`` is appended for a share of the data.
    about : str
        What people read, for example the model's name.
    round_number : int
        Round of the question, from 1.
    epsilon : float
        Pure epsilon, in nats; 0 for a Gaussian mechanism, which has parameters in its place.
    relation : NeighboringRelation
        Data sets between which epsilon bounds the loss of a record.
    is_secure : bool
        Whether the noise cannot be drawn again.
    time : int, default=0
        Seconds since 1970; 0 in a simulation.
    unit : PrivacyUnit, default=PrivacyUnit.RECORD
        Unit of data that the cost protects.
    mechanism : GaussianRounds, optional
        Gaussian mechanism that answers the question; without it the cost is pure epsilon.
    planned : int, default=0
        Number of rounds of this mechanism in the whole run, where the run's first instruction fixes it; else 0.
    """

    kind: ClassVar[str] = "spent"

    question: str
    run: str
    about: str
    round_number: int
    epsilon: float
    relation: NeighboringRelation
    is_secure: bool
    time: int = 0
    unit: PrivacyUnit = PrivacyUnit.RECORD
    mechanism: GaussianRounds | None = None
    planned: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for an epsilon that is no finite number from 0 on, or that stands beside a mechanism."""
        is_number = isinstance(self.epsilon, int | float) and not isinstance(self.epsilon, bool)
        if not is_number or not 0 <= self.epsilon <= sys.float_info.max:
            raise ValueError(f"epsilon = {self.epsilon!r}: must be a finite number from 0 on")
        if isinstance(self.mechanism, Mapping):
            object.__setattr__(self, "mechanism", GaussianRounds(**self.mechanism))
        if self.mechanism is not None:
            if not isinstance(self.mechanism, GaussianRounds) or not self.mechanism.rounds:
                raise ValueError(f"mechanism = {self.mechanism!r}: must be GaussianRounds of at least one round")
            if self.epsilon:
                raise ValueError(f"epsilon = {self.epsilon!r}: a Gaussian mechanism has parameters in its place")
        if isinstance(self.planned, bool) or not isinstance(self.planned, int) or self.planned < 0:
            raise ValueError(f"planned = {self.planned!r}: must be a whole number from 0 on")
        object.__setattr__(self, "relation", NeighboringRelation(self.relation))
        object.__setattr__(self, "unit", PrivacyUnit(self.unit))

    @property
    def plan(self) -> GaussianRounds | None:
        """The mechanism with all rounds that the run's first instruction fixes; None for pure epsilon."""
        if self.mechanism is None:
            return None
        return replace(self.mechanism, rounds=max(self.planned, self.mechanism.rounds))


@dataclass(frozen=True, slots=True)
class Publication:
    """The answer to a question, as published.

    Parameters
    ----------
    question : str
        Digest of the question, as in its `Booking`.
    sha256 : str
        SHA-256 of the answer, under which the storage keeps its bytes.
    """

    kind: ClassVar[str] = "published"

    question: str
    sha256: str


Entry = Booking | Publication
KINDS: dict[str, type[Entry]] = {kind.kind: kind for kind in (Booking, Publication)}


def bookings(entries: Iterable[Entry], run: str = "") -> list[Booking]:
    """Return the bookings among the entries, of all runs or of one."""
    return [each for each in entries if isinstance(each, Booking) and run in ("", each.run)]


def total(bookings: Iterable[Booking]) -> PrivacySpent:
    """Return the sum of bookings of pure epsilon over all runs; in replaced records, if any booking counts in these.

    Of the shares of one run, the share with the largest sum counts (parallel composition): each record lies in one
    share, which does not depend on other records. Bookings that hold for replaced records only are added up over
    shares, too.

    >>> from dataclasses import replace
    >>> one = Booking("q", "r", "dp-forest", 1, 0.5, NeighboringRelation.ADD_REMOVE, is_secure=True)
    >>> total([one, one]).epsilon
    1.0
    >>> total([one, replace(one, run="s/0"), replace(one, run="s/1")]).epsilon
    1.0
    """
    listed = list(bookings)
    relations = {each.relation for each in listed} or {NeighboringRelation.ADD_REMOVE}
    common = max(relations, key=lambda relation: relation is NeighboringRelation.REPLACE)
    lines = tuple(SpentLine(each.about, each.epsilon, is_secure=each.is_secure) for each in listed)
    spent = [
        PrivacySpent(line.epsilon, each.relation, PrivacyUnit.RECORD, line.is_secure, (line,)).under(common)
        for each, line in zip(listed, lines, strict=True)
    ]
    shares: dict[tuple[str, str], list[float]] = {}
    for each, loss in zip(listed, spent, strict=True):
        whole = each.run if each.relation is NeighboringRelation.REPLACE else each.run.partition("/")[0]
        shares.setdefault((whole, each.run), []).append(loss.epsilon)
    most: dict[str, float] = {}
    for (whole, _), epsilons in shares.items():
        most[whole] = max(most.get(whole, 0.0), summed(epsilons))
    return PrivacySpent(
        summed(most.values()), common, PrivacyUnit.RECORD, all(each.is_secure for each in spent),
        tuple(line for each in spent for line in each.lines),
    )  # fmt: skip
