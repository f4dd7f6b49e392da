"""Measure the test rows once, after the last round, in a run whose rounds measure validation rows.

Nothing is chosen by what is measured here. A resume with more rounds measures its own last state.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedlearn.core.cohort import At
from fedlearn.core.metric import Measured
from fedlearn.core.state import State
from fedlearn.core.state_files import unpack_state
from fedlearn.runs.file_names import BEST
from server.feature import Measures, NewState, measured
from server.phases.evaluation import measures_of, on_test_set
from server.run import ServerRun


def tested(run: ServerRun) -> Mapping[str, object]:
    """Return the metrics of the final state on the test rows, and the headline of the best state.

    Empty where rounds measure the test rows, and where a run is paused: it has no last round yet.
    """
    names = [metric.name for metric in run.store.metrics.tested]
    headline = run.store.metrics.of_model
    if not names or not run.store.history.rounds or run.is_paused:
        return {}
    last = len(run.store.history.rounds)
    of_best = _of_best(run, names)
    found = _measured(run, run.state, last, names)
    if headline is None:
        return found
    is_last = run.store.history.best_round == last
    return {**found, f"best_{headline.name}": (found if is_last else of_best).get(headline.name)}


def _measured(run: ServerRun, state: State, round_number: int, names: list[str]) -> Measured:
    def measure(new: NewState) -> Measures:
        return measures_of(run, on_test_set(run, new.state, once=True), names)

    found = measured(run.features, NewState(state, At(round_number, 0), once=True), measure).columns
    return {name: found.get(name) for name in names}


def _of_best(run: ServerRun, names: list[str]) -> Measured:
    """Return the metrics of the best state; empty where that is the final one, or is lost."""
    history, path = run.store.history, run.store.folder / BEST
    if history.best_round in (-1, len(history.rounds)) or not path.exists():
        return {}
    stored = unpack_state(path.read_bytes())
    return _measured(run, {name: stored[name] for name in run.state}, history.best_round, names)
