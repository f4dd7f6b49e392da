"""What a node measures beside the model that it uses, on the same examples (``evaluation.beside``).

- *global*: the state that all have; personal layers are in it as they were before round 1.
- *tuned*: the model that the node uses after ``evaluation.tune_epochs`` more passes over the examples that it trains
  on. It is measured and forgotten.
- *alone*: a model that begins as the run did, and then goes on from itself: whenever the node trains, its model alone
  takes the same steps, with the same batches and learning rates, by the model's own learner (`sgd`). The node keeps it
  in its memory and never sends it. A node that has not trained has none.

What is not finite, as the loss of a model that went to NaN, is left out: a node without a score alone is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from client.examples import examples_of, training_set
from client.isolated_fits import PERSONAL, Fits, fits_of, plain_fits, tuning_fits
from client.learners.learner import LocalFit, LocalTask
from client.memory import NodeMemory
from client.node_feature import Fit, NodeFeature
from client.request import Request
from fedlearn.config import RunConfig
from fedlearn.core.metric import ALONE, GLOBAL, TUNED
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State
from fedlearn.models.loaded import first_state

STATE, ROUND = "state", "round"  # of what a node keeps for its model alone, below a prefix
PREFIX = f"{ALONE}/"


class ComparisonModels(NodeFeature):
    """The common state, the node's model tuned, and a model alone, as far as the settings ask for them."""

    @classmethod
    def is_asked(cls, config: RunConfig) -> bool:
        """Return whether anything is measured beside the model that a node uses."""
        return bool(config.evaluation.kinds)

    def why_not_stacked(self) -> str:
        """Return nothing: the fit of the node's own model stays what it is."""
        return ""

    def fit(self, request: Request, state: State, task: LocalTask, fit: Fit) -> LocalFit:
        """Return the fit; the model alone steps before, as a fit's arrays are the learner's until its next."""
        train_alone(request, task)
        return fit(state, task)

    def measured(self, request: Request, state: State) -> Iterator[tuple[str, State]]:
        """Yield the states that are compared with that of the node."""
        yield from states_beside(request, state)


def train_alone(request: Request, task: LocalTask) -> None:
    """Let the node's model alone take the steps of a task; once a round, however often the node is asked for it."""
    if ALONE not in request.config.evaluation.kinds:
        return
    kept = _kept_alone(request.memory)
    if int(kept.texts.get(ROUND, 0)) >= task.round_number:
        return
    state = kept.arrays.get(STATE) or first_state(request.config)
    kept.arrays[STATE] = _copied(plain_fits(request.config).fit(state, replace(task, memory=kept, parcels={})).arrays)
    kept.texts[ROUND] = str(task.round_number)
    request.memory.arrays |= {PREFIX + name: arrays for name, arrays in kept.arrays.items()}
    request.memory.texts |= {PREFIX + name: text for name, text in kept.texts.items()}


def states_beside(request: Request, sent: State) -> Iterator[tuple[str, State]]:
    """Yield (name, state) of what the node measures beside its own model; each holds until the next is asked for."""
    kinds, kept = request.config.evaluation.kinds, _kept_alone(request.memory)
    if GLOBAL in kinds:
        yield GLOBAL, sent
    if TUNED in kinds:
        yield TUNED, _tuned(request, sent)
    if ALONE in kinds and STATE in kept.arrays:
        yield ALONE, plain_fits(request.config).personal(kept.arrays[STATE], kept)


def _tuned(request: Request, sent: State) -> State:
    """Return what some more passes make of the model that the node uses."""
    own, rows, config = fits_of(request.config).personal(sent, request.memory), examples_of(request), request.config
    if not len(rows):
        return own
    layers = request.memory.arrays.get(PERSONAL)
    memory = NodeMemory(arrays={} if layers is None else {PERSONAL: layers})
    seed, where = seed_for(config.seed, purpose="tuning"), (request.instruction.round_number, request.partition_id)
    fits: Fits = tuning_fits(config)
    fit = fits.fit(own, LocalTask(training_set(request), rows, seed, *where, config={}, memory=memory))
    return fits.personal(_copied(fit.arrays), memory)


def _kept_alone(memory: NodeMemory) -> NodeMemory:
    """Return what the learner of the model alone has for its memory."""
    return NodeMemory(
        {name.removeprefix(PREFIX): text for name, text in memory.texts.items() if name.startswith(PREFIX)},
        {name.removeprefix(PREFIX): arrays for name, arrays in memory.arrays.items() if name.startswith(PREFIX)},
    )


def _copied(state: State) -> State:
    return {name: array.copy() for name, array in state.items()}
