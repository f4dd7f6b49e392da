"""The models of coalitions, rebuilt from the changes that a run has stored, without training."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.state import Sends, State, kept_in_bounds, layout_of
from fedlearn.runs.contributions import Change, read_changes, read_first
from strategies import RoundStrategy, load_strategy
from strategies.base import Turn
from strategies.masked_mean import MaskedSum


class Rebuilt:
    """The models that a run would have made of the changes of some of its clients.

    In each round the run's strategy takes the mean of the coalition's changes, in place of that of the cohort; without
    any, the state stays. The changes were computed from the states of the whole federation: this is the multi-round
    reconstruction of Song et al. 2019.

    Parameters
    ----------
    rounds
        How many rounds the run has.

    References
    ----------
    Song et al. 2019, "Profit allocation for federated learning" (IEEE Big Data), section IV.
    """

    def __init__(self, folder: Path, config: RunConfig, rounds: int) -> None:
        self._config = config
        self._first = read_first(folder)
        self._rounds = [read_changes(folder, number) for number in range(1, rounds + 1)]

    @property
    def clients(self) -> list[int]:
        """The clients whose changes are stored, in order."""
        return sorted({change.client for changes in self._rounds for change in changes})

    def state_of(self, coalition: Collection[int]) -> State:
        """Return the final model of a coalition."""
        strategy, state = load_strategy(self._config.strategy), self._first
        for number, changes in enumerate(self._rounds, start=1):
            if theirs := [change for change in changes if change.client in coalition]:
                state = self._next(strategy, state, theirs, At(number, 1))
        return state

    def _next(self, strategy: RoundStrategy[Any], state: State, changes: list[Change], at: At) -> State:
        total = MaskedSum.empty(layout_of(state))
        total.add([(change.weight, change.update) for change in changes])
        turn = Turn(state, total, Sends.UPDATE, at=at, clients=self._config.clients)
        return kept_in_bounds(strategy.next_state(turn).state, state)
