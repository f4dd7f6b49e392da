"""Evaluation of the global model: on the server's test set, or through the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from flwr.app import Message, MetricRecord
from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.clock import Clock
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.base import WorkerGrid
from fedlearn.errors import Refused
from fedlearn.folding import Member
from fedlearn.metrics import Measured
from fedlearn.models import NOTHING, Evaluation
from fedlearn.models.loaded import dataset_of, evaluate_part
from fedlearn.registry import load_reference
from fedlearn.state import State
from server.phases.configuration import evaluation_messages
from server.polling import pause
from strategies import RoundStrategy

PART = 1000  # test examples evaluated by one worker in one go
EVALUATE_PART = f"{evaluate_part.__module__}:{evaluate_part.__name__}"


def compute(
    grid: Grid, config: RunConfig, reference: str, state: State, arguments: Sequence[tuple[int, ...]]
) -> list[Any]:
    """Return a function's results for each tuple of arguments: on the grid's workers, where it has some, or here."""
    if isinstance(grid, WorkerGrid):
        return grid.call(reference, state, arguments)
    function = load_reference(reference)
    return [function(to_flower(config), state, *each) for each in arguments]


class Evaluator:
    """Evaluates states as the settings say.

    Parameters
    ----------
    grid, strategy
        For evaluation through the nodes; a grid with workers also shares out the test set.
    """

    def __init__(self, grid: Grid, strategy: RoundStrategy, config: RunConfig, *, clock: Clock) -> None:
        self._grid = grid
        self._strategy = strategy
        self._config = config
        self._clock = clock

    def is_due(self, round_number: int) -> bool:
        """Return whether the state after this round is to be evaluated."""
        settings = self._config.evaluation
        last = round_number == self._config.rounds.total
        return settings.where != "none" and (last or round_number % settings.every == 0)

    def evaluate(self, state: State, cohort: Sequence[Member], names: Sequence[str], *, round_number: int) -> Measured:
        """Return what `names` are for the state; None for what is not finite or was not measured."""
        if self._config.evaluation.where == "nodes":
            means = self._through_nodes(state, cohort, round_number)
        else:
            means = self._on_test_set(state)
        values = {name: means.get(name) for name in names}
        return {
            name: float(value) if isinstance(value, int | float) and isfinite(value) else None
            for name, value in values.items()
        }

    def _on_test_set(self, state: State) -> Mapping[str, object]:
        count = len(dataset_of(self._config).test)
        parts = [(start, min(start + PART, count)) for start in range(0, count, PART)]
        total = NOTHING
        for part in compute(self._grid, self._config, EVALUATE_PART, state, parts):
            assert isinstance(part, Evaluation)
            total += part
        return total.means

    def _through_nodes(self, state: State, cohort: Sequence[Member], round_number: int) -> Mapping[str, object]:
        deadline = self._config.rounds.reporting_deadline
        written = evaluation_messages(self._strategy, state, cohort, self._grid, round_number=round_number)
        replies = self._replies([wire.with_ttl(message, deadline) for message in written], deadline)
        sound = _sound(replies, max_examples=self._config.gate.max_examples)
        return self._strategy.aggregate_evaluate(round_number, sound) or MetricRecord()

    def _replies(self, messages: Sequence[Message], deadline: float) -> list[Message]:
        """Return what comes within the deadline, in the order of `messages`: a mean depends on the order of its terms.

        Flower's own `send_and_receive` looks every three seconds.
        """
        begin = self._clock.now()
        sent = [message_id for message_id in self._grid.push_messages(messages) if message_id]
        replies: dict[str, Message] = {}
        while len(replies) < len(sent):
            new = self._grid.pull_messages([message_id for message_id in sent if message_id not in replies])
            replies |= {reply.metadata.reply_to_message_id: reply for reply in new}
            waited = self._clock.now() - begin
            if len(replies) == len(sent) or waited >= deadline:
                break
            self._clock.sleep(pause(waited=waited, left=deadline - waited))
        return [replies[message_id] for message_id in sent if message_id in replies]


def _sound(replies: Iterable[Message], *, max_examples: int) -> list[Message]:
    """Return the replies that can be averaged: strategies raise for others, or let one of them spoil the mean."""
    sound = [reply for reply in replies if reply.has_content() and _is_sound(reply, max_examples)]
    names = Counter(frozenset(_metrics_of(reply)) for reply in sound).most_common(1)
    return [reply for reply in sound if _metrics_of(reply).keys() == names[0][0]]


def _is_sound(reply: Message, max_examples: int) -> bool:
    try:
        num_examples = wire.read_num_examples(reply.content)
    except Refused:
        return False
    numbers = _metrics_of(reply).values()
    return 1 <= num_examples <= max_examples and all(isinstance(n, int | float) and isfinite(n) for n in numbers)


def _metrics_of(reply: Message) -> MetricRecord:
    return wire.only(reply.content, MetricRecord)
