"""Any plain Flower strategy under our rounds, on dense updates.

Selection, deadlines, quorum and the gate are ours; what the strategy makes of the replies is its own. It sees the
cohort as the whole grid, so that its sampling finds exactly the nodes that were selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedlearn import flower, wire
from fedlearn.config.options import options_for
from fedlearn.config.schema import StrategySettings
from fedlearn.errors import RunFailed, SettingError
from fedlearn.state import Array, Sends, State, Update, UpdateKind
from strategies.base import RoundStrategy, Step, Turn
from strategies.collected import Collected


class PlainFlower(RoundStrategy[Collected]):
    """Runs a Flower strategy that knows nothing of us.

    Parameters
    ----------
    strategy
        For instance ``flwr.serverapp.strategy.FedTrimmedAvg()``.
    """

    accepts = frozenset({UpdateKind.DENSE})
    accumulator = "strategies.collected:Collected"

    def __init__(self, strategy: Strategy) -> None:
        super().__init__()
        self.strategy = strategy
        self._fresh = {name: copy(value) for name, value in vars(strategy).items()}

    @classmethod
    def wrap(cls, kind: type[Strategy], settings: StrategySettings) -> PlainFlower:
        """Return the strategy of the class that ``strategy.name`` refers to."""
        options = options_for(kind, settings.options, setting="strategy.options")
        try:
            return cls(kind(**options))
        except (TypeError, ValueError) as error:
            raise SettingError("strategy.options", settings.options, f"{kind.__name__}: {error}") from None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the strategy's own messages."""
        # A copy: Flower's strategies write the round number into the record that they are given.
        return self.strategy.configure_train(server_round, arrays, ConfigRecord(dict(config)), grid)

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the arrays that the strategy makes of the updates."""
        state = turn.state
        replies = [
            _reply(index, self._weights(state, update, turn.sends), weight)
            for index, (weight, update) in enumerate(turn.total.updates)
        ]
        arrays, _ = self.strategy.aggregate_train(turn.at.round_number, replies)
        if arrays is None:
            raise RunFailed(f"{type(self.strategy).__name__} made no model of {len(replies)} reports")
        after = {name: packed.numpy() for name, packed in arrays.items()}  # our own process made them: any layout
        return Step({name: after[name].astype(array.dtype).reshape(array.shape) for name, array in state.items()})

    def _weights(self, state: State, update: Update, sends: Sends) -> State:
        dense = {name: update[name].values.reshape(array.shape) for name, array in state.items()}
        if sends is Sends.WEIGHTS:
            return dense
        return {name: state[name] + change for name, change in dense.items()}

    def memory(self) -> dict[str, Array]:
        """Return the strategy's attributes that are tables of arrays, as FedAdam's moments, or lists, as FedAvgM's."""
        return {
            f"{attribute}/{kind}/{key}": array
            for attribute, value in vars(self.strategy).items()
            for kind, key, array in _arrays_in(value)
        }

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Put those attributes back; one that held no array then is what it was at first."""
        for attribute, value in list(vars(self.strategy).items()):
            if _arrays_in(value):
                setattr(self.strategy, attribute, copy(self._fresh.get(attribute)))
        tables: dict[str, dict[str, Array]] = {}
        lists: dict[str, dict[int, Array]] = {}
        for place, array in memory.items():
            attribute, kind, key = place.split("/", 2)
            if kind == "list":
                lists.setdefault(attribute, {})[int(key)] = array
            else:
                tables.setdefault(attribute, {})[key] = array
        for attribute, table in tables.items():
            setattr(self.strategy, attribute, table)
        for attribute, rows in lists.items():
            setattr(self.strategy, attribute, [rows[index] for index in range(len(rows))])

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the strategy's own messages."""
        return self.strategy.configure_evaluate(server_round, arrays, ConfigRecord(dict(config)), grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return what the strategy itself makes of the replies."""
        return self.strategy.aggregate_train(server_round, replies)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return what the strategy itself makes of the replies."""
        return self.strategy.aggregate_evaluate(server_round, replies)


def _arrays_in(value: object) -> list[tuple[str, str, Array]]:
    """Return (what holds it, its key, array) of every array in a table or list."""
    if isinstance(value, dict):
        return [("table", str(key), array) for key, array in value.items() if isinstance(array, np.ndarray)]
    if isinstance(value, list):
        return [("list", str(index), array) for index, array in enumerate(value) if isinstance(array, np.ndarray)]
    return []


def _reply(index: int, weights: State, num_examples: float) -> Message:
    content = RecordDict(
        {
            wire.ARRAYS: wire.pack_arrays(weights),
            wire.METRICS: MetricRecord({wire.NUM_EXAMPLES: num_examples}),
        }
    )
    return flower.reply_from(node_id=index + 2, message_type="train", reply_to=str(index), content=content, error=None)
