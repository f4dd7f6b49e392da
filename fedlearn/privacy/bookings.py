"""Entries of a ledger: bookings of what questions cost, publications of their answers, and what bookings add up to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, summed


@dataclass(frozen=True, slots=True)
class Booking:
    """What a question has cost, whether or not it was answered.

    Parameters
    ----------
    question : str
        Digest of all that the answer depends on beside data and noise.
    run : str
        Digest of the settings that its questions have in common; of a share of the data, with ``/SHARE`` behind it.
    about : str
        For people, as the model's name.
    round_number : int
        From 1.
    epsilon : float
        Pure, in nats.
    relation : NeighboringRelation
        Between which data sets epsilon bounds the loss of a record.
    is_secure : bool
        Whether nobody can draw its noise again.
    time : int, default=0
        Seconds since 1970; 0 where nobody asks, as in a simulation.
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

    def __post_init__(self) -> None:
        """Refuse what is no loss."""
        is_number = isinstance(self.epsilon, int | float) and not isinstance(self.epsilon, bool)
        if not is_number or not 0 <= self.epsilon <= sys.float_info.max:
            raise ValueError(f"epsilon = {self.epsilon!r}: must be a finite number from 0 on")
        object.__setattr__(self, "relation", NeighboringRelation(self.relation))


@dataclass(frozen=True, slots=True)
class Publication:
    """That a question was answered, and by which bytes.

    Parameters
    ----------
    question : str
        As in its `Booking`.
    sha256 : str
        Of the answer, by which the storage keeps it.
    """

    kind: ClassVar[str] = "published"

    question: str
    sha256: str


Entry = Booking | Publication
KINDS: dict[str, type[Entry]] = {kind.kind: kind for kind in (Booking, Publication)}


def bookings(entries: Iterable[Entry], run: str = "") -> list[Booking]:
    """Return what was booked, by all runs or one."""
    return [each for each in entries if isinstance(each, Booking) and run in ("", each.run)]


def total(bookings: Iterable[Booking]) -> PrivacySpent:
    """Return what bookings come to: their sum over runs, in replaced records if any of them counts so.

    Of the shares of one run the one that has spent the most counts, as a record lies in one of them, and in which does
    not depend on others: parallel composition. What is bounded for replaced records alone is added up over shares, too.

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
