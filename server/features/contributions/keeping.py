"""Storing the changes of all clients, from which `fedlearn worth` rebuilds the models of coalitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from fedlearn.aggregation import STATE, FoldPlan
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Array, Entries, Layout, Sends, State, Update
from fedlearn.runs.stored_changes import write_contributions
from server.attempt import Reporting
from server.feature import Collect, Feature
from server.rules import Rule
from server.run import ServerRun
from strategies.base import AVERAGE, RoundStrategy, Turn
from strategies.collected import Collected
from strategies.masked_mean import MaskedSum

SETTING = "contributions.keep"
CLIENTS = "clients"  # of each update, in a file of a round
KEPT = "kept/"  # what the names of single updates begin with


class KeptSum(MaskedSum):
    """The sum of a cohort's updates, as a run without contributions has it, and each update with its weight."""

    def __init__(self, layout: Layout, totals: dict[str, Any], weights: dict[str, Any]) -> None:
        super().__init__(layout, totals, weights)
        self.single = Collected.empty(layout)

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add updates, and keep them."""
        super().add(parts)
        self.single.add(parts)

    def clear(self) -> None:
        """Forget sum and updates."""
        super().clear()
        self.single.clear()

    def merge(self, later: Self) -> None:
        """Add another sum, and keep its updates after ours."""
        super().merge(later)
        self.single.merge(later.single)

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays of the sum, and of the updates."""
        return super().to_arrays() | {f"{KEPT}{name}": array for name, array in self.single.to_arrays().items()}

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the sum that `to_arrays` described."""
        made = super().from_arrays(layout, {n: array for n, array in arrays.items() if not n.startswith(KEPT)})
        single = {n.removeprefix(KEPT): array for n, array in arrays.items() if n.startswith(KEPT)}
        made.single = Collected.from_arrays(layout, single)
        return made


class Contributions(Feature):
    """Stores the changes of each round in the run folder; changes no byte of the model."""

    run: ServerRun
    rules = (
        Rule(
            SETTING, lambda asked: asked.config.is_secure,
            "the server gets the sum of the changes only, and no change of a client", "use false",
        ),
        Rule(
            SETTING,
            lambda asked: asked.traits.is_private or asked.config.protects_nodes or asked.config.protects_records,
            "the changes of single clients, and scores of models without one client, have no budget", "use false",
        ),
        Rule(
            SETTING,
            lambda asked: asked.strategy.accumulator != AVERAGE or not asked.traits.update_kind.is_averaged,
            "models of coalitions are rebuilt by strategies that need only the mean of the changes", "use 'fedavg'",
        ),
        Rule(
            SETTING, lambda asked: asked.config.rounds.schedule != "synchronous",
            "a coalition has no common state in each round", "use rounds.schedule = 'synchronous'",
        ),
        Rule(
            SETTING, lambda asked: asked.traits.auxiliary or asked.strategy.root_examples,
            "the server adds arrays to the state that no client has sent", "use false",
        ),
    )  # fmt: skip

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether changes are to be stored."""
        return config.contributions.keep

    def begin(self, state: State, memory: Mapping[str, Array]) -> None:
        """Store the first state; refuse a strategy whose clients send more than the state."""
        if self.strategy.answers(state):
            raise SettingError(
                SETTING, True, f"clients of strategy {self.config.strategy.name!r} send more than changes of the "
                "state, which a coalition would need, too: use 'fedavg'",
            )  # fmt: skip
        self._first = state

    def reports(self, plan: FoldPlan, at: At, collect: Collect) -> Reporting:
        """Return the reports, added up as without this feature, with each update beside the sum."""
        parcel = replace(plan.parcels[STATE], accumulator=f"{__name__}:{KeptSum.__name__}")
        return collect(replace(plan, parcels={**plan.parcels, STATE: parcel}), at)

    def turn(self, turn: Turn[Any]) -> Turn[Any]:
        """Store the changes of the round, before it counts, so that a kill loses none."""
        if turn.at.round_number == 1:
            write_contributions(self.run.store.folder, 0, self._first)
        counted = [partition for (partition,) in Reporting(turn.members, turn.reports, {}).counted]
        updates = turn.total.single.updates
        if turn.sends is Sends.WEIGHTS:
            updates = [(weight, _change(update, turn.state)) for weight, update in updates]
        arrays = Collected(turn.total.layout, updates).to_arrays() | {CLIENTS: np.array(counted, np.int64)}
        write_contributions(self.run.store.folder, turn.at.round_number, arrays)
        return turn


def _change(update: Update, state: State) -> Update:
    """Return the change of weights from the state that they were trained from."""
    found = {}
    for name, sent in update.items():
        before = state[name].reshape(-1)
        before = before if sent.positions is None else before[sent.positions]
        found[name] = Entries(sent.values - before, sent.positions)
    return found
