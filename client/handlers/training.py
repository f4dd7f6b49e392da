"""Training: one node improves the state on its own examples and reports what came of it; or several nodes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from flwr.app import Message, RecordDict

from client.acknowledged_sums import undo_from
from client.answer import report
from client.examples import adds_too_few, examples_of, training_set
from client.handlers.evaluation_handler import measured
from client.isolated_fits import fits_of, learner_of, why_not_stacked
from client.learners.learner import LocalFit, LocalTask
from client.learners.plain_answer import Answer
from client.mods import with_mods
from client.node_feature import features_of, fitted, own_state, reported
from client.node_ledger import NodeBudget
from client.owner.error_disclosure import is_private, withheld
from client.owner.guards import guarded
from client.owner.owner_refusals import NOT_ENOUGH
from client.owner.participation import check_separated, count_participation
from client.received.received_state import state_in
from client.request import Request
from fedlearn import flower, wire
from fedlearn.cache.trusted import say_once
from fedlearn.core.errors import UsageError, said
from fedlearn.core.metric import AFTER, BEFORE, EPSILON
from fedlearn.core.state import State, is_same
from fedlearn.models.loaded import loaded


def train(request: Request, fit: LocalFit | None = None) -> Message:
    """Return the report of what the node's examples make of the state.

    Parameters
    ----------
    fit
        The fit, where several nodes were trained at once; None trains this node.
    """
    with guarded(request):
        sent = state_in(request)  # a node that cannot read what it was sent does not become active
        check_separated(request)
        if adds_too_few(request):  # a server may have asked whether it is ready with other settings
            raise withheld(request, NOT_ENOUGH)
        with request.active():
            try:
                answer = with_mods(request, sent, lambda state, content: _learned(request, state, content, fit))
                reply = (
                    answer
                    if isinstance(answer, Message)
                    else reported(request, answer, sent, lambda answer: report(request, answer, state=sent))
                )
                count_participation(request)
                fits_of(request.config).put_back()  # now that no array of the report is the learner's
                return reply
            finally:
                request.keep_memory()  # what a fit has spent is spent, even if it failed


def _learned(request: Request, state: State, content: RecordDict, made: LocalFit | None) -> Answer:
    """Return what the node answers to a state."""
    config, task = request.config, task_of(request, content)
    if not is_private(config):
        own = own_state(config, state, request.memory)
        return Answer.of_fit(fitted(request, own, task, lambda state, task: _fit(request, state, task, made)))
    learner_of(config).check(state)
    published = NodeBudget.of_round(request, task.round_number).once(
        state, task, lambda: flower.to_bytes(Answer.of_fit(_paid(request, state, task)).to_records())
    )
    return Answer.in_records(flower.from_bytes(published))


def task_of(request: Request, content: RecordDict) -> LocalTask:
    """Return what the records of a message ask the node to do."""
    undo_from(request.memory, request.instruction.round_number)
    rows, passes = examples_of(request), request.config.training.passes
    limits = (round(passes * len(rows)) if passes else None, wire.most_examples(content))
    train = training_set(request)
    for each in features_of(request.config):
        train, rows = each.examples(request, train, rows)
    return LocalTask(
        train=train,
        indices=rows,
        seed=request.config.seed,
        round_number=request.instruction.round_number,
        partition_id=request.partition_id,
        config=wire.read_config(content),
        memory=request.memory,
        parcels={name: wire.unpack_arrays(record) for name, record in wire.parcels_of(content).items()},
        most_examples=min((each for each in limits if each is not None), default=None),
    )


def _paid(request: Request, state: State, task: LocalTask) -> LocalFit:
    """Return the fit of a private node, without the metrics that its budget does not pay for."""
    config = request.config
    fit = fitted(request, state, task, fits_of(config).fit)
    loss = loaded(config)[1].metrics.privacy_loss or EPSILON
    spent = {name: value for name, value in fit.metrics.items() if name == loss.name}
    return replace(fit, metrics=spent, num_examples=fit.num_examples if config.privacy.public_sizes else 1)


def _fit(request: Request, state: State, task: LocalTask, made: LocalFit | None) -> LocalFit:
    """Return what the learner makes of the state, with what both measure on the node, where that is asked for."""
    config = request.config
    fits = fits_of(config)
    if not (config.evaluation.nodes and config.is_evaluated(task.round_number)):
        return _of_no_budget(made or fits.fit(state, task))
    before = measured(request, fits.personal(state, task.memory), BEFORE)
    fit = _of_no_budget(made or fits.fit(state, task))
    # Measuring loads the node's own state where the fit's arrays may lie: without a copy, that would be sent.
    fit = fit.replaced({name: array.copy() for name, array in fit.arrays.items()})
    after = measured(request, fits.personal(fit.arrays, task.memory), AFTER)
    return replace(fit, metrics={**fit.metrics, **before, **after})


def _of_no_budget(fit: LocalFit) -> LocalFit:
    """Refuse the fit of a learner that counts what it spends, and does not say that it is private."""
    if EPSILON.name in fit.metrics:
        raise UsageError("training.learner: it counts epsilon, and no ledger does: let its class say is_private = True")
    return fit


def fits_together(requests: Sequence[Request]) -> Mapping[Request, LocalFit]:
    """Return the fits of several nodes: nodes that begin with the same state are trained in one computation.

    Nodes whose message cannot be read have no fit, nor has any node of a computation that fails: each is then trained
    alone, and one that fails fails alone.
    """
    if len(requests) < 2 or why_not_stacked(requests[0].config):
        return {}
    fits: dict[Request, LocalFit] = {}
    for state, tasks in _of_one_state(requests):
        try:
            if len(tasks) > 1:
                made = fits_of(requests[0].config).fit_many(state, list(tasks.values()))
                fits |= {request: _copied(fit) for request, fit in zip(tasks, made, strict=True)}
        except (Exception, SystemExit) as error:
            for request in tasks:
                request.forget_memory()
            say_once(f"training.stack: these clients are trained one by one: {type(error).__name__}: {said(error)}")
    return fits


def _of_one_state(requests: Sequence[Request]) -> list[tuple[State, dict[Request, LocalTask]]]:
    """Group tasks by the state that they begin with; slices of different ratios are different states."""
    found: list[tuple[State, dict[Request, LocalTask]]] = []
    for request in requests:
        with suppress(Exception):  # its own handler raises it again
            state = state_in(request)
            task = task_of(request, request.content)
            tasks = next((tasks for known, tasks in found if is_same(known, state)), None)
            if tasks is None:
                found.append((state, {request: task}))
            else:
                tasks[request] = task
    return found


def _copied(fit: LocalFit) -> LocalFit:
    """Return a fit that shares no memory with the learner, which goes on."""
    return replace(fit, arrays={name: array.copy() for name, array in fit.arrays.items()})
