"""The ClientApp: what a node does with each message of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from client.discretion import NOT_MEASURED, Withheld, discreet, is_private
from client.fits import KEPT, Fits
from client.guests import guests
from client.learners import LEARNERS
from client.learners.base import Learner, LocalFit, LocalTask
from client.ledger import Purse
from client.memory import NodeMemory, keep, memory_of, stored_at_home
from client.mods import active_while_training, boxed, compress, expand
from client.node import (
    NodeStatus,
    at_home,
    empty_nodes,
    examples_of,
    examples_to_test,
    on_its_device,
    partition_id_of,
    partitions_of,
    training_set,
)
from client.policy import governed
from client.stacks import Call, taken, train_ahead
from fedlearn import flower, wire
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.data.cache import checked
from fedlearn.models.loaded import loaded
from fedlearn.plugging.generators import seeded_globals
from fedlearn.plugging.registry import call_plugin
from fedlearn.words.errors import UsageError
from fedlearn.words.metric import AFTER, BEFORE, EPSILON, TEST_EXAMPLES
from fedlearn.words.seeding import seed_for
from fedlearn.words.state import State

app = ClientApp()


@app.query("ready", mods=[boxed, on_its_device, governed, discreet, stored_at_home])
def ready(message: Message, context: Context) -> Message:
    """Say whether this node can take part in the round that is being selected.

    A node that answers is not training, so whatever it was active in is over. One whose examples are private does not
    even say that it has none.
    """
    NodeStatus.of(context).keep(context, active=False)
    config = from_flower(context.run_config)
    memory = memory_of(context)
    why_not = _learner(config).why_not(memory)
    if is_private(config):
        why_not = why_not or _why_not_published(message, context, memory)
    elif not len(examples_of(context)):
        why_not = "it has no examples"
    return wire.ready_answer(message, partition_id=partition_id_of(context), why_not=why_not)


def _why_not_published(message: Message, context: Context, memory: NodeMemory) -> str:
    """Return why a node of a private model has nothing to answer in the round that is being selected."""
    asked = int(wire.read_config(message.content).get("round_number", 1))  # type: ignore[arg-type]
    try:
        return _purse(context, memory, asked).why_not(asked)
    except Withheld as refusal:
        return str(refusal)


@app.query("round_over", mods=[boxed])
def round_over(message: Message, context: Context) -> Message:
    """Hear that a round is over: rejected, late, refused or abandoned."""
    told = str(wire.read_config(message.content).get("why", ""))
    NodeStatus.of(context).keep(context, active=False, told=told)
    return Message(RecordDict(), reply_to=message)


@app.train(
    mods=[on_its_device, governed, discreet, stored_at_home, boxed, expand, active_while_training, compress, guests]
)
def train(message: Message, context: Context) -> Message:
    """Improve the state on this node's examples."""
    config = from_flower(context.run_config)
    made = taken(message)
    memory = memory_of(context) if made is None else made.memory
    state, task = _asked(message, context, memory)
    try:
        if not is_private(config):
            return _reported(message, config, _fit(context, state, task, None if made is None else made.fit))
        _learner(config).check(state)
        report = _purse(context, memory, task.round_number).once(
            state, task, lambda: flower.to_bytes(_reported(message, config, _paid(config, state, task)).content)
        )
        return Message(flower.from_bytes(report), reply_to=message)
    finally:
        keep(context, memory)  # what a fit has spent is spent, even if it failed


def _asked(message: Message, context: Context, memory: NodeMemory) -> tuple[State, LocalTask]:
    """Return the state that a message brings, and what the node is to do with it."""
    config = from_flower(context.run_config)
    task = LocalTask(
        train=training_set(context),
        indices=examples_of(context),
        seed=config.seed,
        round_number=wire.read_instruction(message.content).round_number,
        partition_id=partition_id_of(context),
        config=wire.read_config(message.content),
        memory=memory,
        parcels={name: wire.unpack_arrays(record) for name, record in wire.parcels_of(message.content).items()},
        most_examples=wire.most_examples(message.content),
    )
    return wire.read_state(message.content), task


def _purse(context: Context, memory: NodeMemory, round_number: int) -> Purse:
    config = from_flower(context.run_config)
    return Purse(context, memory, cost=_learner(config).cost(config.privacy.epsilon, round_number=round_number))


def _paid(config: RunConfig, state: State, task: LocalTask) -> LocalFit:
    """Return the fit of a private node, which says nothing that its budget does not pay for."""
    fit = _fits(config).fit(state, task)
    loss = loaded(config)[1].metrics.privacy_loss or EPSILON
    spent = {name: value for name, value in fit.metrics.items() if name == loss.name}
    return replace(fit, metrics=spent, num_examples=fit.num_examples if config.privacy.public_sizes else 1)


def _reported(message: Message, config: RunConfig, fit: LocalFit) -> Message:
    """Return the report of a fit, which shares no memory with it: what the fit has left behind is put back."""
    report = wire.dense_report(message, fit.arrays, fit.metrics, fit.num_examples, fit.parcels)
    _fits(config).put_back()
    return report


def _fit(context: Context, state: State, task: LocalTask, made: LocalFit | None) -> LocalFit:
    """Return what the learner makes of the state, with what both measure on the node, where that is asked for.

    `made`: the fit, where it was made ahead.
    """
    config = from_flower(context.run_config)
    fits = _fits(config)
    learner = fits.learner
    if not _measures_while_training(config, task.round_number):
        return _of_no_budget(made or fits.fit(state, task))
    measured = _measured(context, learner.personal(state, task.memory), BEFORE)
    fit = _of_no_budget(made or fits.fit(state, task))
    # Measuring loads the node's own state where the fit's arrays may lie: without a copy, that would be sent.
    fit = fit.replaced({name: array.copy() for name, array in fit.arrays.items()})
    measured |= _measured(context, learner.personal(fit.arrays, task.memory), AFTER)
    return replace(fit, metrics={**fit.metrics, **measured})


def _of_no_budget(fit: LocalFit) -> LocalFit:
    """Refuse the fit of a learner that counts what it spends, and does not say that it is private."""
    if EPSILON.name in fit.metrics:
        raise UsageError("training.learner: it counts epsilon, and no ledger does: let its class say is_private = True")
    return fit


def _measures_while_training(config: RunConfig, round_number: int) -> bool:
    """Return whether the node measures the states before and after it trains."""
    return bool(config.evaluation.nodes) and config.is_evaluated(round_number)


def _measured(context: Context, state: State, when: str) -> dict[str, float]:
    """Return what a state measures on examples of the node's own, by names that say which state it was."""
    examples = examples_to_test(context)
    means = loaded(from_flower(context.run_config))[1].evaluate(state, examples).means if len(examples) else {}
    return {TEST_EXAMPLES: len(examples), **{f"{name}_{when}": value for name, value in means.items()}}


@app.evaluate(mods=[on_its_device, governed, discreet, stored_at_home, boxed])
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the state on what this node keeps for it, or on the examples that it trains on.

    A private model is not: no budget covers what it would say of them.
    """
    config = from_flower(context.run_config)
    if is_private(config):
        raise Withheld(NOT_MEASURED)
    examples = examples_to_test(context)
    if not len(examples):
        return wire.metrics_report(message, {}, 0)
    state = _learner(config).personal(wire.read_state(message.content), memory_of(context))
    result = loaded(config)[1].evaluate(state, examples)
    return wire.metrics_report(message, result.means, result.count)


def prepare(run_config: Mapping[str, Any]) -> None:
    """Make what a process makes once for a run: data, model, learner, partitions. A warm executor forks after it.

    What this machine's cache holds is compared with its checksum. The model is made on the CPU: what was begun on a GPU
    cannot be forked.
    """
    config = from_flower(at_home(run_config))
    with checked():
        _fits(config)
        partitions_of(config)


def keeps_private(settings: Mapping[str, Any], state: State) -> bool:
    """Return whether the run's nodes say no more of their examples than a budget pays for."""
    return is_private(from_flower(settings))


def trial(settings: Mapping[str, Any], state: State) -> tuple[str, ...]:
    """Make the learner, try a fit, look at the partitions: what is wrong is said before round 1, not by every node.

    Returns
    -------
    tuple of str
        What is likely not meant, a line each: what module, loss or learner keep beside the state where that would
        change the next fit; nodes without examples.
    """
    config = from_flower(settings)
    dataset, model = loaded(config)
    fits = _fits(config)
    if is_private(config):
        return ()
    names = fits.tried(model.initial_state(seed=config.seed), dataset.train)
    return (*([KEPT.format(names=names)] if names else []), *empty_nodes(config))


def ahead(calls: Sequence[Call]) -> None:
    """Train the nodes of several messages in one computation, where that can be done; `train` finds what they learn."""
    config = from_flower(calls[0][1].run_config)
    if not _why_not_stacked(config):
        train_ahead(calls, _fits(config), lambda message, context: _asked(message, context, memory_of(context)))


def why_not_stacked(settings: Mapping[str, Any], state: State) -> str:
    """Return why a run's nodes are trained one by one whatever ``training.stack`` says; empty if they are not."""
    return _why_not_stacked(from_flower(settings))


@per_run
def _why_not_stacked(config: RunConfig) -> str:
    if is_private(config):
        return "its nodes have ledgers"
    if config.client.mods:
        return "client.mods may change what a node is given to learn"
    return _fits(config).why_not_stacked(loaded(config)[0].train)


@per_run
def _learner(config: RunConfig) -> Learner:
    model = loaded(config)[1]
    name = config.training.learner or model.learner
    make = LEARNERS.load(name).from_settings
    with seeded_globals(seed_for(config.seed, purpose="learner")) if ":" in name else nullcontext():
        learner: Learner = call_plugin("training.learner", name, make, model, config)
    return learner


@per_run
def _fits(config: RunConfig) -> Fits:
    return Fits(_learner(config), loaded(config)[1], config, are_secret=is_private(config))
