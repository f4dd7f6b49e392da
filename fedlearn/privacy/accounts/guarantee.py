"""What is said beside every epsilon: delta, relation, unit, trust and sampling."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit, as_plain

NO_SAMPLING = "no sampling assumed"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A privacy promise: epsilon with its delta, relation, unit, trust and sampling.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, in nats.
    delta : float
        Probability in [0, 1); 0 is pure epsilon.
    relation : NeighboringRelation
        Relation of the data sets between which the promise holds.
    unit : PrivacyUnit
        Unit of data that the promise protects.
    trust : str
        Who is trusted, in words, for example ``"trusted server"`` or ``"nobody is trusted"``.
    sampling : str
        Sampling that the promise assumes, in words; see `sampled` and `NO_SAMPLING`.

    Examples
    --------
    >>> one = NeighboringRelation.ADD_REMOVE, PrivacyUnit.NODE
    >>> print(Guarantee(4.0, 1e-6, *one, trust="trusted server", sampling=sampled(PrivacyUnit.NODE, 0.1)))
    epsilon 4.00, delta 1e-06; add or remove one client; trusted server; Poisson sampling of clients, rate 0.1
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    unit: PrivacyUnit
    trust: str
    sampling: str

    def __str__(self) -> str:
        """Return the promise as one sentence."""
        unit = f"{self.relation.value.removesuffix(' record')} {self.unit.word}"
        return f"epsilon {self.epsilon:.2f}, delta {self.delta:g}; {unit}; {self.trust}; {self.sampling}"

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON and TOML can hold, the sentence among them."""
        return {**asdict(self), "epsilon": as_plain(self.epsilon), "words": str(self)}


def sampled(unit: PrivacyUnit, rate: float) -> str:
    """Return the words for Poisson sampling of units at a rate; 1 is none.

    >>> sampled(PrivacyUnit.RECORD, 1.0)
    'no sampling assumed'
    """
    return NO_SAMPLING if rate == 1 else f"Poisson sampling of {unit.word}s, rate {rate:g}"
