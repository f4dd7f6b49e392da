"""Staleness: how much a report counts that was made of a state which is not the latest any more.

Staleness is the number of rounds that were committed between the moment at which a node was sent the state and the one
at which its report was taken in: 0 for a report that was made of the latest state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import NonNegative
from fedlearn.core.metric import STALENESS_LARGEST, STALENESS_MEAN, Measured

Form = Literal["constant", "polynomial", "hinge"]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Staleness:
    """The weight s of a report by its staleness t: 1 at most, and never more for a staler one.

    Parameters
    ----------
    form
        constant, s = 1; polynomial, s = (t + 1) ** -power; hinge, s = 1 up to `grace`, then
        1 / (slope * (t - grace) + 1).
    power, slope, grace
        From 0.

    References
    ----------
    Xie et al. 2019, "Asynchronous federated optimization" (arXiv:1903.03934), section 5.2, calls them a, a and b.
    Nguyen et al. 2022, "Federated learning with buffered asynchronous aggregation" (arXiv:2106.06639) takes the
    polynomial of power 0.5.

    Examples
    --------
    >>> [Staleness("polynomial", power=0.5)(each) for each in (0, 3, 8)]
    [1.0, 0.5, 0.3333333333333333]
    >>> [Staleness("hinge", slope=2.0, grace=4)(each) for each in (0, 4, 5, 6)]
    [1.0, 1.0, 0.3333333333333333, 0.2]
    """

    form: Form = "polynomial"
    power: NonNegative = 0.5
    slope: NonNegative = 10.0
    grace: Count = 4

    def __call__(self, staleness: int) -> float:
        """Return the weight."""
        if self.form == "polynomial":
            return float((staleness + 1) ** -self.power)
        if self.form == "hinge" and staleness > self.grace:
            return 1 / (self.slope * (staleness - self.grace) + 1)
        return 1.0


def measured_of(staleness: Sequence[int]) -> Measured:
    """Return the columns of a round in which reports of this staleness were counted; None where there was none."""
    mean = sum(staleness) / len(staleness) if staleness else None
    largest = float(max(staleness)) if staleness else None
    return {STALENESS_MEAN.name: mean, STALENESS_LARGEST.name: largest}
