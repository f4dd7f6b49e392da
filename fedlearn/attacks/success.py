"""How often an attack succeeds: the state on test examples with the attack's trigger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.attacks import attack_of
from fedlearn.config import from_flower
from fedlearn.core.state import State
from fedlearn.models import NOTHING, Evaluation
from fedlearn.models.loaded import loaded, rows_measured


def evaluate_triggered(settings: Mapping[str, Any], state: State, start: int, stop: int) -> Evaluation:
    """Return the evaluation of a state on the rows from `start` to `stop` that rounds measure, with the trigger.

    The accuracy on them is the attack's success; the caller adds parts in order.
    """
    config = from_flower(settings)
    dataset, model = loaded(config)
    attack = attack_of(config)
    found = None if attack is None else attack.triggered(rows_measured(config, dataset).at(start, stop))
    return NOTHING if found is None or not len(found) else model.evaluate(state, found)
