"""What the defences share: they look at the changes of a cohort, of whose nodes a number is taken to lie."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Protocol

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from fedlearn.core.errors import SettingError
from fedlearn.core.state import State
from strategies.base import RoundStrategy, Step, Turn
from strategies.collected import Collected
from strategies.masked_mean import Float64
from strategies.robust.columns import WeightedMean, stepped
from strategies.robust.geometry import Changes
from strategies.robust.mixing import nearest_means

Attackers = Annotated[int, Field(ge=0)]


class Robust(Protocol):
    """A strategy that stands a number of attackers, in cohorts that are large enough."""

    attackers: int

    @property
    def fewest_reports(self) -> int:
        """The number of reports below which the rule promises nothing."""
        ...


def check_attackers(strategy: Robust, cohort: int) -> None:
    """Raise SettingError for a cohort of so many nodes that can never have enough reports."""
    if cohort < strategy.fewest_reports:
        raise SettingError(
            "strategy.options.attackers", strategy.attackers,
            f"{type(strategy).__name__} needs {strategy.fewest_reports} reports to stand "
            f"{strategy.attackers} attackers, and a cohort has {cohort} clients: use fewer, or a larger rounds.cohort",
        )  # fmt: skip


class Defence(RoundStrategy[Collected]):
    """A strategy that stands a number of nodes that send anything at all; every node weighs one.

    A round needs as many reports as the rule asks for with so many attackers (`fewest_reports`): it is part of the
    quorum, and a run whose cohort can never have them is refused. Fewer reports leave the state as it is.

    Parameters
    ----------
    attackers : int, default=1
        f: so many of the nodes that report may lie, from 0.
    mixing : bool, default=False
        Whether each change is first replaced by the mean of its n - f nearest ones (`strategies.robust.mixing`).
    uniform : bool, default=False
        Makes no difference: every node counts alike anyway.
    """

    accumulator = "strategies.collected:Collected"
    takes_groups = True
    needs: ClassVar[tuple[int, int]] = (2, 1)
    """(a, b): the rule asks for at least a f + b reports."""

    def __init__(self, *, attackers: Attackers = 1, mixing: bool = False, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.attackers = attackers
        self.mixing = mixing

    @property
    def fewest_reports(self) -> int:
        """The number of reports below which the rule promises nothing."""
        times, more = self.needs
        return times * self.attackers + more

    def check_cohort(self, cohort: int) -> None:
        """Refuse a cohort that can never have enough reports."""
        check_attackers(self, cohort)

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the state after the rule's change; an entry that no node sent keeps its value."""
        updates = [update for _, update in turn.total.updates]
        if len(updates) < self.fewest_reports:
            return Step(turn.state)
        with threadpool_limits(1):  # with more threads other bytes
            return self.after(Changes(turn.state, updates, turn.sends))

    @abstractmethod
    def after(self, changes: Changes) -> Step:
        """Return what the rule makes of the changes, at least `fewest_reports`, and whose it has left out."""


def change_by(changes: Changes, rule: Callable[[Float64], Float64]) -> dict[str, Float64]:
    """Return the flat change that a rule makes of each parameter's columns, a block at a time; NaN is no change."""
    found = {}
    with threadpool_limits(1):
        for name, array in changes.state.items():
            found[name] = np.full(array.size, np.nan)
            for block, values in changes.columns(name):
                found[name][block] = rule(values)
    return found


def by_columns(changes: Changes, rule: Callable[[Float64], Float64]) -> State:
    """Return the state after the change that a rule makes of each block of columns; NaN keeps the old value."""
    after = {}
    with threadpool_limits(1):
        for name, array in changes.state.items():
            flat = array.reshape(-1)
            moved = np.empty_like(flat)
            for block, values in changes.columns(name):
                moved[block] = stepped(flat[block], rule(values))
            after[name] = moved.reshape(array.shape)
    return after


class Combination(Defence):
    """A defence whose change is a combination of the nodes' changes, with weights that follow from their geometry."""

    def after(self, changes: Changes) -> Step:
        """Return the state after the combination; an entry is combined over the nodes that sent it."""
        gram = changes.gram()
        mixing = nearest_means(gram, self.attackers) if self.mixing else np.eye(len(changes))
        weights = self.weights(mixing @ gram @ mixing.T) @ mixing
        weighing = np.flatnonzero(weights)
        state = by_columns(changes.of(weighing), WeightedMean(weights[weighing]))
        return Step(state, left_out=np.flatnonzero(weights == 0).tolist())

    @abstractmethod
    def weights(self, gram: Float64) -> Float64:
        """Return the weight of each node, from 0, of sum 1, shape (nodes,).

        Parameters
        ----------
        gram
            Inner products of the nodes' changes, shape (nodes, nodes).
        """
