"""What a budget is counted in, and what has been spent of it.

An epsilon says nothing alone. It bounds the privacy loss between *neighboring* data sets; which pairs are neighbors is
the relation, and whose data makes the difference is the unit. The three travel together in ``PrivacySpent``.

Source: Dwork, Roth 2014, definition 2.4; Kifer, Machanavajjhala 2011 for bounded (replace) against unbounded (add or
remove).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedlearn.config.tables.learning import PrivacySettings


class NeighboringRelation(StrEnum):
    """Which data sets differ by one unit.

    Attributes
    ----------
    ADD_REMOVE
        One has one unit more than the other.
    REPLACE
        Both have as many, and one unit is another.

    Examples
    --------
    >>> NeighboringRelation("replace one record") is NeighboringRelation.REPLACE
    True
    """

    ADD_REMOVE = "add or remove one record"
    REPLACE = "replace one record"


class PrivacyUnit(StrEnum):
    """Whose data makes two data sets neighbors.

    Attributes
    ----------
    RECORD
        One record; a person with several has several times the loss.
    NODE
        All that a node holds.

    Examples
    --------
    >>> PrivacyUnit("node") is PrivacyUnit.NODE
    True
    """

    RECORD = "record"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class SpentLine:
    """One entry of an account.

    Parameters
    ----------
    what : str
        What the budget paid for, in words.
    epsilon : float
        What it cost, in nats; 0 or more.
    level : int or None, default=None
        The tree level it was spent on, root = 0. None: it belongs to no level.
    is_secure : bool, default=False
        Whether the noise came from secure randomness.

    Examples
    --------
    >>> SpentLine("root split", 0.4, level=0)
    SpentLine(what='root split', epsilon=0.4, level=0, is_secure=False)
    """

    what: str
    epsilon: float
    level: int | None = None
    is_secure: bool = False


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """What has been spent, in which currency, with the lines that make it up.

    Parameters
    ----------
    epsilon : float
        Pure differential privacy, in nats.
    relation : NeighboringRelation
        Between which data sets it bounds the loss.
    unit : PrivacyUnit
        Whose data it protects.
    is_secure : bool
        False: the noise can be drawn again from its seed, so it protects nobody.
    lines : tuple of SpentLine, default=()
        What it was spent on.

    Examples
    --------
    >>> spent = PrivacySpent(1.0, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, is_secure=True)
    >>> print(spent)
    epsilon = 1 (add or remove one record; unit: record)
    >>> print(spent.under(NeighboringRelation.REPLACE))
    epsilon = 2 (replace one record; unit: record)
    """

    epsilon: float
    relation: NeighboringRelation
    unit: PrivacyUnit
    is_secure: bool
    lines: tuple[SpentLine, ...] = ()

    def under(self, relation: NeighboringRelation) -> PrivacySpent:
        """Return the same spending as it counts under another relation.

        To replace a record is to remove one and to add one, so epsilon doubles (group privacy of two). The way back
        does not exist: a mechanism that is private under replacement may publish the number of records.

        Raises
        ------
        ValueError
            If add or remove is asked of what was accounted under replacement.
        """
        if relation is self.relation:
            return self
        if relation is NeighboringRelation.ADD_REMOVE:
            raise ValueError(
                f"relation = {relation.value!r}: a bound under {self.relation.value!r} says nothing about it; "
                "account under 'add or remove one record' from the start"
            )
        doubled = tuple(replace(line, epsilon=2 * line.epsilon) for line in self.lines)
        return replace(self, epsilon=2 * self.epsilon, relation=relation, lines=doubled)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that any JSON or TOML writer takes; an infinite epsilon is the string "inf"."""
        lines = [{**asdict(line), "epsilon": as_plain(line.epsilon)} for line in self.lines]
        return {
            "epsilon": as_plain(self.epsilon),
            "relation": self.relation.value,
            "unit": self.unit.value,
            "is_secure": self.is_secure,
            "lines": lines,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> PrivacySpent:
        """Read back what ``to_dict`` wrote."""
        lines = tuple(SpentLine(**{**line, "epsilon": float(line["epsilon"])}) for line in stored["lines"])
        return cls(
            epsilon=float(stored["epsilon"]),
            relation=NeighboringRelation(stored["relation"]),
            unit=PrivacyUnit(stored["unit"]),
            is_secure=bool(stored["is_secure"]),
            lines=lines,
        )

    def __str__(self) -> str:
        warning = "" if self.is_secure else "; not secure: protects nobody"
        return f"epsilon = {self.epsilon:g} ({self.relation.value}; unit: {self.unit.value}{warning})"


def largest_loss(epsilon: float, settings: PrivacySettings) -> PrivacySpent:
    """Return what a record loses at most by answers that cost epsilon if a record is added or removed.

    Where everybody knows how many records there are, two data sets of which one has a record more can be told apart by
    that alone: only to *replace* a record has a meaning then, and it costs epsilon twice.

    Parameters
    ----------
    epsilon : float
        Of all answers together, in nats; 0 or more.
    settings : PrivacySettings
        Of the run: whether everybody knows how many records there are, and whether its noise may be drawn again.

    Examples
    --------
    >>> from fedlearn.config.tables.learning import PrivacySettings
    >>> print(largest_loss(1.0, PrivacySettings(public_sizes=True, noise="secure")))
    epsilon = 2 (replace one record; unit: record)
    """
    is_secure = settings.noise != "seeded"
    loss = PrivacySpent(epsilon, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, is_secure)
    return loss.under(NeighboringRelation.REPLACE) if settings.public_sizes else loss


def summed(epsilons: Iterable[float]) -> float:
    """Return a sum without rounding in between; infinite where it is beyond the largest float.

    >>> summed([0.1] * 10), summed([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return math.fsum(epsilons)
    except OverflowError:
        return math.inf


def as_plain(epsilon: float) -> float | str:
    """Return epsilon as JSON can hold it."""
    return "inf" if math.isinf(epsilon) else epsilon
