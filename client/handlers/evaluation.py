"""Evaluation: a node measures a state on examples of its own."""

from __future__ import annotations

from math import isfinite

from flwr.app import Message

from client.apart import own_state
from client.beside import states_beside
from client.discretion import Withheld, is_private
from client.fits import fits_of
from client.guards import guarded
from client.node import examples_to_test
from client.policy import NOT_MEASURED
from client.visit import Visit
from fedlearn import wire
from fedlearn.data.base import Examples
from fedlearn.models.loaded import loaded, rows_measured
from fedlearn.words.metric import TEST_EXAMPLES
from fedlearn.words.state import State


def evaluate(visit: Visit) -> Message:
    """Return what the state measures on what this node keeps for it, or on the examples that it trains on.

    Where the message asks for it, the node measures what ``evaluation.beside`` names, too.

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
        return _answer(visit, examples)


def evaluate_on_test_set(visit: Visit, *, once: bool = False) -> Message:
    """Return what the node's own state measures on the rows that all nodes of a simulation have in common.

    Raises
    ------
    Withheld
        If the model is private, or the node has no other test examples than its own: no honest server asks it then.
    """
    with guarded(visit):
        if is_private(visit.config) or visit.holds_own_data:
            raise Withheld(NOT_MEASURED)
        rows = rows_measured(visit.config, loaded(visit.config)[0], once=once)
        return _answer(visit, rows.at(0, len(rows)))


def evaluate_on_test_rows_once(visit: Visit) -> Message:
    """Return what the node's own state measures on the test rows that are measured after the last round."""
    return evaluate_on_test_set(visit, once=True)


def _answer(visit: Visit, examples: Examples) -> Message:
    sent, model = wire.read_state(visit.content), loaded(visit.config)[1]
    result = model.evaluate(fits_of(visit.config).personal(own_state(visit, sent), visit.memory), examples)
    means = dict(result.means)
    if wire.is_beside(visit.content):
        for kind, state in states_beside(visit, sent):
            found = model.evaluate(state, examples).means  # of a model that went to NaN its loss is left out
            means |= {f"{name}_{kind}": value for name, value in found.items() if isfinite(value)}
    return wire.metrics_report(visit.message, means, result.count)


def measured(visit: Visit, state: State, when: str) -> dict[str, float]:
    """Return what a state measures on examples of the node's own, by names that say which state it was."""
    examples = examples_to_test(visit)
    means = loaded(visit.config)[1].evaluate(state, examples).means if len(examples) else {}
    return {TEST_EXAMPLES: len(examples), **{f"{name}_{when}": value for name, value in means.items()}}
