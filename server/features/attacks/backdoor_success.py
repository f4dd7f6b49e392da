"""The success of an attack, measured on the server's test set beside the metrics of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedlearn.attacks import attack_of
from fedlearn.attacks.success import evaluate_triggered
from fedlearn.config import RunConfig
from fedlearn.core.metric import ACCURACY, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.models import NOTHING, Evaluation
from server.feature import Added, Feature, Measure, Measures, NewState
from server.phases.evaluation import is_due, parts_of
from server.run import ServerRun
from strategies.base import RoundStrategy

BACKDOOR = Metric(
    "backdoor_success",
    "success of the attack",
    "down",
    note="test examples with trigger",
    low=0,
    high=1,
    is_result=True,
)


class BackdoorSuccess(Feature):
    """Measures how often an attack succeeds, where the server's test set can show it."""

    run: ServerRun

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the attack is one that is measured, on the server."""
        attack = attack_of(config)
        return attack is not None and attack.is_measured and config.evaluation.where == "server"

    def metrics(self, of_model: Metrics) -> Added:
        """Return the share of triggered examples on which the attack succeeds."""
        return Added((BACKDOOR,))

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures with the success of the attack, where the state is evaluated."""
        found = measure(new)
        if new.once:
            return found
        success = self._success(new) if is_due(self.run, new.at.round_number) else None
        return replace(found, columns={**found.columns, BACKDOOR.name: success})

    def _success(self, new: NewState) -> float | None:
        total = NOTHING
        for part in self.run.exchange.compute(evaluate_triggered, new.state, parts_of(self.run)):
            assert isinstance(part, Evaluation)
            total += part
        return total.means.get(ACCURACY.name)
