"""What is measured in a run: the columns of its table that depend on what is learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EPSILON = "epsilon"
"""Privacy spent on a record so far: the largest that any node has reported, as every record lies on one node."""

LOWER_IS_BETTER = frozenset({"loss", "mae", "mae_scaled"})
TITLES = {"mae": "MAE", "mae_scaled": "MAE scaled"}

Measured = Mapping[str, float | None]
"""Column -> value; None where it was not measured."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The columns of one kind of model.

    Parameters
    ----------
    reported
        Measured by the nodes of a cohort while they learn.
    evaluated
        Measured by `Model.evaluate`, means over examples.
    best_by
        The one of them by which the best round is found.
    """

    reported: tuple[str, ...]
    evaluated: tuple[str, ...]
    best_by: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All names, in the order of the table."""
        return (*self.reported, *self.evaluated)

    def is_better(self, value: float, than: float) -> bool:
        """Return whether the best round would be another."""
        return value < than if self.best_by in LOWER_IS_BETTER else value > than


NEURAL_CLASSIFIER = Metrics(("train_loss",), ("loss", "accuracy"), best_by="accuracy")
PRIVATE_CLASSIFIER = Metrics((EPSILON,), ("loss", "accuracy"), best_by="accuracy")
PRIVATE_REGRESSOR = Metrics((EPSILON,), ("mae", "mae_scaled"), best_by="mae")


def title_of(name: str) -> str:
    """Return a column's name for people.

    >>> title_of("train_loss"), title_of("mae")
    ('train loss', 'MAE')
    """
    return TITLES.get(name, name.replace("_", " "))
