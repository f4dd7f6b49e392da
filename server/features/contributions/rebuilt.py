"""The models of coalitions, rebuilt from the changes that a run has stored, without training."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.state import Sends, State, Update, kept_in_bounds, layout_of
from fedlearn.runs.stored_changes import read_contributions
from server.features.contributions.keeping import CLIENTS
from strategies import load_strategy
from strategies.base import Turn
from strategies.collected import Collected
from strategies.masked_mean import MaskedSum


class Rebuilt:
    """The models that a run would have made of the changes of some of its clients.

    In each round the run's strategy takes the mean of the coalition's changes, in place of that of the cohort; without
    any, the state stays. The changes were computed from the states of the whole federation.

    Parameters
    ----------
    rounds
        How many rounds the run has.

    References
    ----------
    Song et al. 2019, "Profit allocation for federated learning" (IEEE Big Data): multi-round reconstruction.
    """

    def __init__(self, folder: Path, config: RunConfig, rounds: int) -> None:
        self._config = config
        self._first = read_contributions(folder, 0)
        self._rounds = [_changes(folder, number) for number in range(1, rounds + 1)]

    @property
    def clients(self) -> list[int]:
        """The clients whose changes are stored, in order."""
        return sorted({client for changes in self._rounds for client, *_ in changes})

    def state_of(self, coalition: Collection[int]) -> State:
        """Return the final model of a coalition."""
        strategy = load_strategy(self._config.strategy)
        state: State = self._first
        for number, changes in enumerate(self._rounds, start=1):
            if theirs := [(weight, change) for client, weight, change in changes if client in coalition]:
                total = MaskedSum.empty(layout_of(state))
                total.add(theirs)
                turn = Turn(state, total, Sends.UPDATE, at=At(number, 1), clients=self._config.clients)
                state = kept_in_bounds(strategy.next_state(turn).state, state)
        return state


def _changes(folder: Path, round_number: int) -> list[tuple[int, float, Update]]:
    arrays = read_contributions(folder, round_number)
    clients = arrays.pop(CLIENTS).tolist()
    return [(client, *part) for client, part in zip(clients, Collected.from_arrays({}, arrays).updates, strict=True)]
