"""Training: one node improves the state on its own examples and reports what came of it; or several nodes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from flwr.app import Message, RecordDict

from client.answer import Answer, report
from client.apart import is_apart, kept_apart, own_state
from client.attacking import lied, poisoned
from client.beside import train_alone
from client.counted import undo_from
from client.discretion import is_private
from client.downlink import state_in
from client.fits import fits_of, learner_of, why_not_stacked
from client.guards import guarded
from client.guests import with_mods
from client.handlers.evaluation import measured
from client.learners.base import LocalFit, LocalTask
from client.ledger import NodeBudget
from client.node import examples_of, training_set
from client.noised import noised
from client.participation import check_separated, count_participation
from client.visit import Visit
from fedlearn import flower, wire
from fedlearn.cache.trusted import say_once
from fedlearn.config import RunConfig
from fedlearn.models.loaded import loaded
from fedlearn.words.errors import UsageError, said
from fedlearn.words.metric import AFTER, BEFORE, EPSILON
from fedlearn.words.state import State, is_same


def train(visit: Visit, fit: LocalFit | None = None) -> Message:
    """Return the report of what the node's examples make of the state.

    Parameters
    ----------
    fit
        The fit, where several nodes were trained at once; None trains this node.
    """
    with guarded(visit):
        sent = state_in(visit)  # a node that cannot read what it was sent does not become active
        check_separated(visit)
        with visit.active():
            try:
                answer = with_mods(visit, sent, lambda state, content: _learned(visit, state, content, fit))
                reply = answer if isinstance(answer, Message) else report(visit, lied(visit, answer, sent), state=sent)
                count_participation(visit)
                fits_of(visit.config).put_back()  # now that no array of the report is the learner's
                return reply
            finally:
                visit.keep_memory()  # what a fit has spent is spent, even if it failed


def _learned(visit: Visit, state: State, content: RecordDict, made: LocalFit | None) -> Answer:
    """Return what the node answers to a state."""
    config, task = visit.config, task_of(visit, content)
    if not is_private(config):
        if is_apart(config):
            own = own_state(visit, state)
            return Answer.of_fit(kept_apart(visit.memory, task.round_number, lambda: _fit(visit, own, task, None)))
        train_alone(visit, task)  # first: a fit's arrays are the learner's until its next one
        return Answer.of_fit(_fit(visit, state, task, made))
    learner_of(config).check(state)
    published = NodeBudget.of_round(visit, task.round_number).once(
        state, task, lambda: flower.to_bytes(Answer.of_fit(_paid(config, state, task)).to_records())
    )
    return Answer.in_records(flower.from_bytes(published))


def task_of(visit: Visit, content: RecordDict) -> LocalTask:
    """Return what the records of a message ask the node to do."""
    undo_from(visit.memory, visit.instruction.round_number)
    rows, passes = examples_of(visit), visit.config.training.passes
    limits = (round(passes * len(rows)) if passes else None, wire.most_examples(content))
    train = training_set(visit)
    if (lies := poisoned(visit, train, rows)) is not None:
        train, rows = lies, np.arange(len(lies))
    return LocalTask(
        train=train,
        indices=rows,
        seed=visit.config.seed,
        round_number=visit.instruction.round_number,
        partition_id=visit.partition_id,
        config=wire.read_config(content),
        memory=visit.memory,
        parcels={name: wire.unpack_arrays(record) for name, record in wire.parcels_of(content).items()},
        most_examples=min((each for each in limits if each is not None), default=None),
    )


def _paid(config: RunConfig, state: State, task: LocalTask) -> LocalFit:
    """Return the fit of a private node, without the metrics that its budget does not pay for."""
    fit = fits_of(config).fit(state, task)
    if config.nodes_add_noise:
        return noised(config, state, task, fit)
    loss = loaded(config)[1].metrics.privacy_loss or EPSILON
    spent = {name: value for name, value in fit.metrics.items() if name == loss.name}
    return replace(fit, metrics=spent, num_examples=fit.num_examples if config.privacy.public_sizes else 1)


def _fit(visit: Visit, state: State, task: LocalTask, made: LocalFit | None) -> LocalFit:
    """Return what the learner makes of the state, with what both measure on the node, where that is asked for."""
    config = visit.config
    fits = fits_of(config)
    if not (config.evaluation.nodes and config.is_evaluated(task.round_number)):
        return _of_no_budget(made or fits.fit(state, task))
    before = measured(visit, fits.personal(state, task.memory), BEFORE)
    fit = _of_no_budget(made or fits.fit(state, task))
    # Measuring loads the node's own state where the fit's arrays may lie: without a copy, that would be sent.
    fit = fit.replaced({name: array.copy() for name, array in fit.arrays.items()})
    after = measured(visit, fits.personal(fit.arrays, task.memory), AFTER)
    return replace(fit, metrics={**fit.metrics, **before, **after})


def _of_no_budget(fit: LocalFit) -> LocalFit:
    """Refuse the fit of a learner that counts what it spends, and does not say that it is private."""
    if EPSILON.name in fit.metrics:
        raise UsageError("training.learner: it counts epsilon, and no ledger does: let its class say is_private = True")
    return fit


def fits_together(visits: Sequence[Visit]) -> Mapping[Visit, LocalFit]:
    """Return the fits of several nodes, made in one computation; none where that cannot be done.

    Nodes whose message cannot be read have no fit, nor has any node if the computation fails: each is then trained
    alone, and one that fails fails alone.
    """
    if len(visits) < 2 or why_not_stacked(visits[0].config):
        return {}
    tasks: dict[Visit, LocalTask] = {}
    states: list[State] = []
    for visit in visits:
        with suppress(Exception):  # its own handler raises it again
            state = state_in(visit)
            tasks[visit] = task_of(visit, visit.content)
            states.append(state)
    if len(states) < 2 or not all(is_same(state, states[0]) for state in states):
        return {}
    try:
        fits = fits_of(visits[0].config).fit_many(states[0], list(tasks.values()))
        return {visit: _copied(fit) for visit, fit in zip(tasks, fits, strict=True)}
    except (Exception, SystemExit) as error:
        for visit in tasks:
            visit.forget_memory()
        say_once(f"training.stack: these nodes are trained one by one: {type(error).__name__}: {said(error)}")
        return {}


def _copied(fit: LocalFit) -> LocalFit:
    """Return a fit that shares no memory with the learner, which goes on."""
    return replace(fit, arrays={name: array.copy() for name, array in fit.arrays.items()})
