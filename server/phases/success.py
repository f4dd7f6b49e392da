"""The success of an attack, measured on the server's test set beside the metrics of the model."""

from __future__ import annotations

from fedlearn.attacks.success import evaluate_triggered
from fedlearn.core.metric import ACCURACY, Measured
from fedlearn.core.state import State
from fedlearn.models import NOTHING, Evaluation
from server.attackers import BACKDOOR, attack_metrics
from server.phases.evaluation import is_due, parts_of
from server.run import ServerRun


def success_of_attack(run: ServerRun, state: State, *, round_number: int) -> Measured:
    """Return the share of test examples with the trigger on which the attack succeeds; empty without such an attack."""
    if not attack_metrics(run.config):
        return {}
    if not is_due(run, round_number):
        return {BACKDOOR.name: None}
    total = NOTHING
    for part in run.exchange.compute(evaluate_triggered, state, parts_of(run)):
        assert isinstance(part, Evaluation)
        total += part
    return {BACKDOOR.name: total.means.get(ACCURACY.name)}
