"""Evaluation: a node measures a state on examples of its own."""

from __future__ import annotations

from flwr.app import Message

from client.discretion import Withheld, is_private
from client.fits import fits_of
from client.guards import guarded
from client.node import examples_to_test
from client.policy import NOT_MEASURED
from client.visit import Visit
from fedlearn import wire
from fedlearn.models.loaded import loaded
from fedlearn.words.metric import TEST_EXAMPLES
from fedlearn.words.state import State


def evaluate(visit: Visit) -> Message:
    """Return what the state measures on what this node keeps for it, or on the examples that it trains on.

    Raises
    ------
    Withheld
        If the model is private: no budget covers what the metrics would say of the examples.
    """
    with guarded(visit):
        if is_private(visit.config):
            raise Withheld(NOT_MEASURED)
        examples = examples_to_test(visit)
        if not len(examples):
            return wire.metrics_report(visit.message, {}, 0)
        state = fits_of(visit.config).personal(wire.read_state(visit.content), visit.memory)
        result = loaded(visit.config)[1].evaluate(state, examples)
        return wire.metrics_report(visit.message, result.means, result.count)


def measured(visit: Visit, state: State, when: str) -> dict[str, float]:
    """Return what a state measures on examples of the node's own, by names that say which state it was."""
    examples = examples_to_test(visit)
    means = loaded(visit.config)[1].evaluate(state, examples).means if len(examples) else {}
    return {TEST_EXAMPLES: len(examples), **{f"{name}_{when}": value for name, value in means.items()}}
