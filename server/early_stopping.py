"""Early stopping: a run ends before ``rounds.total`` once a metric has reached a target, or improves no more.

Whether a run has ended is a function of its committed rounds and its settings alone, so a killed run stops after the
same round as an unkilled one, and a resume of a run that has stopped runs no further round.

What it costs: the round after which a run stops says something of the examples that the metric is measured on. Where
nodes publish what they have paid for, only metrics of public rows at the server are allowed: a function of states that
are published anyway, and of public rows, costs no epsilon (post-processing: Dwork and Roth 2014, proposition 2.1).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.metric import VALIDATION, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.models.model import Finished
from fedlearn.runs.history import RoundRecord
from strategies import RoundStrategy

FREE = "early stopping goes by public rows of the server: the round after which it stops costs no epsilon"
NOT_FREE = "early stopping goes by private test rows, measured exactly: no epsilon counts what its round says of them"
PRIVATE = (
    "a private run chooses by public rows only, and the server's test rows are private here: no budget pays for what a "
    "choice says of them; declare test rows that are public, or leave it out"
)
STOPPED = (
    "%s: the run has stopped early %s: no further round is run; an empty stop.target, stop.patience = 0 and stop.after "
    "= 0 go on"
)
NOISY = "DifferentialPrivacy"  # what the names of Flower's private strategies begin with

log = logging.getLogger(__name__)


class Stopping:
    """Follows the committed rounds of a run, and knows when the run has to stop.

    Parameters
    ----------
    metric
        The metric by which the run stops; None never stops a run.
    rounds
        The rounds that are committed already.

    Attributes
    ----------
    reason
        Why no further round is run, in words; empty as long as the run goes on.
    is_paused
        Whether it is by `stop.after`, and no metric.
    """

    def __init__(self, config: RunConfig, metric: Metric | None, rounds: Iterable[RoundRecord] = ()) -> None:
        self._config = config
        self._target = float(config.stop.target) if config.stop.target else None
        self._metric = metric
        self._best: tuple[float, int] | None = None  # the value of the last improvement, and its round
        self.reason = ""
        self.is_paused = False
        self._has_failed = False
        for record in rounds:
            self.take(record)

    def take(self, record: RoundRecord) -> None:
        """Take in a round that is being committed."""
        metric, number, stop = self._metric, record.round_number, self._config.stop
        if stop.after and number >= stop.after and not self.reason:
            self.reason, self.is_paused = f"stop.after = {stop.after}", True
        value = None if metric is None else record.measured.get(metric.name)
        if metric is None or self.reason or not (value is not None or self._config.is_evaluated(number)):
            return
        if value is not None and self._target is not None and not metric.is_better(self._target, value):
            self.reason = f"{metric.name} {value:.6g} has reached stop.target = {self._target:.6g}"
        elif value is not None and self._is_improved(metric, value):
            self._best = value, number
        elif stop.patience and number - (self._best[1] if self._best else 0) >= stop.patience:
            by = f" by {stop.least_improvement:g}" if stop.least_improvement else ""
            since = f"since {self._best[0]:.6g} in round {self._best[1]}" if self._best else "at all"
            self.reason = f"{metric.name} has not improved{by} {since} (stop.patience = {stop.patience})"

    def finish(self, finished: Finished) -> None:
        """Take in whether the model says by its new state that the run is at its end."""
        self.reason, self._has_failed = finished.why, finished.is_failure

    def check_result(self) -> None:
        """Raise `RunFailed` after the last round of a model that says its end, where it has no result."""
        if self._has_failed:
            raise RunFailed(self.reason)
        if not self.reason:
            total = self._config.rounds.total
            raise RunFailed(f"rounds.total = {total} rounds were too few for a result: ask for more")

    def _is_improved(self, metric: Metric, value: float) -> bool:
        if self._best is None:
            return True
        before = self._best[0]
        return metric.is_better(value, before) and abs(value - before) >= self._config.stop.least_improvement

    def say_of(self, folder: Path, *, committed: int) -> None:
        """Log that the run in a folder, which is taken up again, has stopped early, if it has."""
        if early := self.early(committed):
            log.warning(STOPPED, folder, early)

    def early(self, committed: int) -> str:
        """Return in which round and why the run has stopped early, after so many rounds; empty if it has not."""
        is_early = self.reason and committed < self._config.rounds.total
        return f"in round {committed} because {self.reason}" if is_early else ""


def stops_by(config: RunConfig, columns: Metrics) -> Metric | None:
    """Return the metric by which a run stops early; None where the settings ask for no early stop."""
    if not (config.stop.target or config.stop.patience):
        return None
    name = config.stop.metric or columns.best_by
    names = (name, f"{VALIDATION}{name}")
    return next((metric for metric in (*columns.evaluated, *columns.reported) if metric.name in names), None)


def check_validation(config: RunConfig, *, is_private: bool, test_is_public: bool) -> None:
    """Refuse validation rows where the server measures none, or where they are private rows of a private run."""
    share, where = config.data.validation_share, config.evaluation.where
    if is_private and not test_is_public:
        raise SettingError("data.validation_share", share, PRIVATE)
    if where != "server":
        why = f"validation rows are rows of the server's test set, and evaluation.where = {where!r}: leave it out"
        raise SettingError("data.validation_share", share, why)


def check_stopping(
    config: RunConfig, columns: Metrics, *, is_private: bool, test_is_public: bool
) -> str:  # fmt: skip
    """Refuse to stop early by what is not measured, or by what no budget pays for; return a note on what it costs.

    Parameters
    ----------
    config
        The settings, without an evaluation that private test rows forbid.
    columns
        All that is measured in the run.
    is_private
        Whether noise is to hide what nodes report (`hides_rows`); that of client mods may, too.
    test_is_public
        Whether everybody may know the rows of the server's test set.

    Raises
    ------
    SettingError
        In one line.
    """
    if not (config.stop.target or config.stop.patience):
        return ""
    metric, where = stops_by(config, columns), config.evaluation.where
    if metric is None or not metric.better:
        ranked = ", ".join(each.name for each in (*columns.evaluated, *columns.reported) if each.better)
        what = "it is not measured in this run" if metric is None else "of it no value is the better one"
        raise SettingError("stop.metric", config.stop.metric, f"{what}: name one of {ranked}")
    of_state = any(metric.name == each.name for each in columns.evaluated)
    if of_state and where == "none":
        raise SettingError(
            "stop.metric", metric.name,
            "the state is not evaluated in this run, so no round would be the last one: evaluate it "
            "(evaluation.where; of a private model on public test rows), or leave out stop.target and stop.patience",
        )  # fmt: skip
    if not (is_private or config.client.mods):
        return ""
    if not of_state or where != "server":
        raise SettingError(
            "stop.metric", metric.name,
            "clients measure it on examples that noise is to hide, and no budget pays for what the last round would "
            "say of them: stop by a metric of the server's test set (evaluation.where = 'server')",
        )  # fmt: skip
    if is_private and not test_is_public:
        raise SettingError("stop.metric", metric.name, PRIVATE)
    return FREE if test_is_public else NOT_FREE


def hides_rows(config: RunConfig, strategy: RoundStrategy[Any], *, is_private: bool) -> bool:
    """Return whether noise is to hide what nodes report: their own, or that of the strategy."""
    kinds = type(getattr(strategy, "strategy", strategy)).__mro__
    return (
        is_private
        or config.protects_nodes
        or any(metric.is_privacy_loss for metric in strategy.metrics)
        or any(kind.__name__.startswith(NOISY) for kind in kinds)
    )
