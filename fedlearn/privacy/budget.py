"""The units of a privacy budget, and records of what was spent.

An epsilon alone has no meaning. It bounds the privacy loss between *neighboring* data sets. The relation says which
pairs are neighbors, the unit says whose data they differ in. ``PrivacySpent`` keeps the three together.

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
    from fedlearn.config.tables.privacy import PrivacySettings


class NeighboringRelation(StrEnum):
    """Relation of data sets that differ by one unit.

    Attributes
    ----------
    ADD_REMOVE
        One data set has one unit more than the other.
    REPLACE
        Both data sets have the same number of units, and one unit differs.

    Examples
    --------
    >>> NeighboringRelation("replace one record") is NeighboringRelation.REPLACE
    True
    """

    ADD_REMOVE = "add or remove one record"
    REPLACE = "replace one record"


class PrivacyUnit(StrEnum):
    """Unit of data in which neighboring data sets differ.

    Attributes
    ----------
    RECORD
        One record; a person with several records has several times the loss.
    NODE
        All data of a client.

    Examples
    --------
    >>> PrivacyUnit("node") is PrivacyUnit.NODE, PrivacyUnit.NODE.word
    (True, 'client')
    """

    RECORD = "record"
    NODE = "node"

    @property
    def word(self) -> str:
        """The word for the unit in sentences."""
        return "client" if self is PrivacyUnit.NODE else self.value


@dataclass(frozen=True, slots=True)
class SpentLine:
    """One entry of an account.

    Parameters
    ----------
    what : str
        What the epsilon paid for, in words.
    epsilon : float
        Cost in nats; 0 or more.
    level : int or None, default=None
        Tree level that it was spent on, root = 0. None: no level.
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
    """Spent epsilon, with its relation and unit, and the lines that add up to it.

    Parameters
    ----------
    epsilon : float
        Epsilon of differential privacy, in nats; pure where delta is 0.
    relation : NeighboringRelation
        Relation of the data sets between which epsilon bounds the loss.
    unit : PrivacyUnit
        Unit of data that epsilon protects.
    is_secure : bool
        Whether the noise was secure; seeded noise can be drawn again, so it protects no one.
    lines : tuple of SpentLine, default=()
        Entries of the account.
    delta : float, default=0.0
        Probability in [0, 1] at which epsilon holds.

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
    delta: float = 0.0

    def under(self, relation: NeighboringRelation) -> PrivacySpent:
        """Return the same spending under another relation.

        To replace a record is to remove one and to add one, so epsilon doubles, and delta grows by the factor 1 +
        exp(epsilon) (group privacy of two; Dwork, Roth 2014, theorem 2.2). The other
        direction does not exist: a mechanism that is private under replacement may publish the number of records.

        Raises
        ------
        ValueError
            If the spending was accounted under replacement, and add or remove is asked for.
        """
        if relation is self.relation:
            return self
        if relation is NeighboringRelation.ADD_REMOVE:
            raise ValueError(
                f"relation = {relation.value!r}: a bound under {self.relation.value!r} does not hold for it; "
                "account under 'add or remove one record' from the start"
            )
        doubled = tuple(replace(line, epsilon=2 * line.epsilon) for line in self.lines)
        delta = min(self.delta * (1 + math.exp(min(self.epsilon, 700.0))), 1.0)
        return replace(self, epsilon=2 * self.epsilon, relation=relation, lines=doubled, delta=delta)

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON and TOML can hold; an infinite epsilon is the string "inf"."""
        lines = [{**asdict(line), "epsilon": as_plain(line.epsilon)} for line in self.lines]
        return {
            "epsilon": as_plain(self.epsilon),
            "relation": self.relation.value,
            "unit": self.unit.value,
            "is_secure": self.is_secure,
            "lines": lines,
            **({"delta": self.delta} if self.delta else {}),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> PrivacySpent:
        """Return the spending that ``to_dict`` wrote."""
        lines = tuple(SpentLine(**{**line, "epsilon": float(line["epsilon"])}) for line in stored["lines"])
        return cls(
            epsilon=float(stored["epsilon"]),
            relation=NeighboringRelation(stored["relation"]),
            unit=PrivacyUnit(stored["unit"]),
            is_secure=bool(stored["is_secure"]),
            lines=lines,
            delta=float(stored.get("delta", 0.0)),
        )

    def __str__(self) -> str:
        warning = "" if self.is_secure else "; not secure: protects nobody"
        at = f", delta = {self.delta:g}" if self.delta else ""
        relation = self.relation.value.replace("record", self.unit.word)
        return f"epsilon = {self.epsilon:g}{at} ({relation}; unit: {self.unit.word}{warning})"


def largest_loss(epsilon: float, settings: PrivacySettings) -> PrivacySpent:
    """Return the largest privacy loss of a record by answers that cost epsilon when a record is added or removed.

    If the number of records is public, two data sets of different size can be told apart by it alone. Then only
    *replacing* a record has a meaning, and costs twice the epsilon.

    Parameters
    ----------
    epsilon : float
        Epsilon of all answers together, in nats; 0 or more.
    settings : PrivacySettings
        Settings of the run: whether the number of records is public, and whether noise is seeded.

    Examples
    --------
    >>> from fedlearn.config.tables.privacy import PrivacySettings
    >>> print(largest_loss(1.0, PrivacySettings(public_sizes=True, noise="secure")))
    epsilon = 2 (replace one record; unit: record)
    """
    is_secure = settings.noise != "seeded"
    loss = PrivacySpent(epsilon, NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD, is_secure)
    return loss.under(NeighboringRelation.REPLACE) if settings.public_sizes else loss


def summed(epsilons: Iterable[float]) -> float:
    """Return the correctly rounded sum; infinite where it exceeds the largest float.

    >>> summed([0.1] * 10), summed([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return math.fsum(epsilons)
    except OverflowError:
        return math.inf


def as_plain(epsilon: float) -> float | str:
    """Return epsilon as a value that JSON can hold."""
    return "inf" if math.isinf(epsilon) else epsilon
