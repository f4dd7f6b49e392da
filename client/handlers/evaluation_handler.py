"""Evaluation: a node measures a state on examples of its own."""

from __future__ import annotations

from math import isfinite

from flwr.app import Message

from client.examples import examples_to_test
from client.isolated_fits import fits_of
from client.node_feature import features_of, own_state
from client.owner.error_disclosure import Withheld, is_private
from client.owner.guards import guarded
from client.owner.owner_refusals import NOT_MEASURED
from client.request import Request
from fedlearn import wire
from fedlearn.core.metric import TEST_EXAMPLES
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples
from fedlearn.models.loaded import loaded, rows_measured


def evaluate(request: Request) -> Message:
    """Return what the state measures on what this node keeps for it, or on the examples that it trains on.

    Where the message asks for it, the node measures what ``evaluation.beside`` names, too.

    Raises
    ------
    Withheld
        If the model is private: no budget covers what the metrics would say of the examples.
    """
    with guarded(request):
        if is_private(request.config):
            raise Withheld(NOT_MEASURED)
        examples = examples_to_test(request)
        if not len(examples):
            return wire.metrics_report(request.message, {}, 0)
        return _answer(request, examples)


def evaluate_on_test_set(request: Request, *, once: bool = False) -> Message:
    """Return what the node's own state measures on the rows that all nodes of a simulation have in common.

    Raises
    ------
    Withheld
        If the model is private, or the node has no other test examples than its own: no honest server asks it then.
    """
    with guarded(request):
        if is_private(request.config) or request.holds_own_data:
            raise Withheld(NOT_MEASURED)
        rows = rows_measured(request.config, loaded(request.config)[0], once=once)
        return _answer(request, rows.at(0, len(rows)))


def evaluate_on_test_rows_once(request: Request) -> Message:
    """Return what the node's own state measures on the test rows that are measured after the last round."""
    return evaluate_on_test_set(request, once=True)


def _answer(request: Request, examples: Examples) -> Message:
    config, sent, model = request.config, wire.read_state(request.content), loaded(request.config)[1]
    own = own_state(config, sent, request.memory)
    result = model.evaluate(fits_of(config).personal(own, request.memory), examples)
    means = dict(result.means)
    if wire.is_beside(request.content):
        for kind, state in (pair for each in features_of(config) for pair in each.measured(request, sent)):
            found = model.evaluate(state, examples).means  # of a model that went to NaN its loss is left out
            means |= {f"{name}_{kind}": value for name, value in found.items() if isfinite(value)}
    return wire.metrics_report(request.message, means, result.count)


def measured(request: Request, state: State, when: str) -> dict[str, float]:
    """Return what a state measures on examples of the node's own, by names that say which state it was."""
    examples = examples_to_test(request)
    means = loaded(request.config)[1].evaluate(state, examples).means if len(examples) else {}
    return {TEST_EXAMPLES: len(examples), **{f"{name}_{when}": value for name, value in means.items()}}
