"""The success of an attack, measured on the server's test set beside the metrics of the model."""

from __future__ import annotations

from fedlearn.attacks.success import evaluate_triggered
from fedlearn.models import NOTHING, Evaluation
from fedlearn.models.loaded import dataset_of
from fedlearn.words.metric import ACCURACY, Measured
from fedlearn.words.state import State
from server.attackers import BACKDOOR, attack_metrics
from server.phases.evaluation import PART, is_due
from server.run import ServerRun


def success_of_attack(run: ServerRun, state: State, *, round_number: int) -> Measured:
    """Return the share of test examples with the trigger on which the attack succeeds; empty without such an attack."""
    if not attack_metrics(run.config):
        return {}
    if not is_due(run, round_number):
        return {BACKDOOR.name: None}
    count = len(dataset_of(run.config).test)
    parts = [(start, min(start + PART, count)) for start in range(0, count, PART)]
    total = NOTHING
    for part in run.exchange.compute(evaluate_triggered, state, parts):
        assert isinstance(part, Evaluation)
        total += part
    return {BACKDOOR.name: total.means.get(ACCURACY.name)}
