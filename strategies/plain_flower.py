"""Any plain Flower strategy under our rounds, on dense updates.

Selection, deadlines, quorum and the gate are ours; what the strategy makes of the replies is its own. It sees the
cohort as the whole grid, so that its sampling finds exactly the nodes that were selected, and with each update the
metrics that the node has reported.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedlearn import flower, wire
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.cohort import Fate, NodeReport
from fedlearn.core.errors import FedlearnError, RunFailed, SettingError, said
from fedlearn.core.state import Array, Sends, State, Update, UpdateKind, changed_by
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_plugin
from fedlearn.plugins.tracebacks import shortened
from strategies.attributes import Attributes
from strategies.base import RoundStrategy, Step, Turn
from strategies.collected import Collected
from strategies.whole_numbers import as_before

WRAPPED = "strategy"  # the parameter by which Flower's wrappers take the strategy that they wrap

log = logging.getLogger(__name__)


class PlainFlower(RoundStrategy[Collected]):
    """Runs a Flower strategy that knows nothing of us.

    Parameters
    ----------
    strategy
        For instance ``flwr.serverapp.strategy.FedTrimmedAvg()``.
    uniform
        The strategy gets 1 as the number of examples of every node.
    """

    accepts = frozenset({UpdateKind.DENSE})
    accumulator = "strategies.collected:Collected"
    reads_all_metrics = True

    def __init__(self, strategy: Strategy, *, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.strategy = strategy
        self._attributes = Attributes(strategy)

    @classmethod
    def wrap(cls, make: Callable[..., Any], settings: StrategySettings) -> PlainFlower:
        """Return the strategy that the class or function makes to which ``strategy.name`` refers."""
        made = _made(make, settings.options, setting="strategy.options", name=settings.name)
        return cls(made, uniform=settings.weighting == "uniform")

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the strategy's own messages."""
        flower.forget_pending(self.strategy, server_round)  # of an attempt that was abandoned
        # A copy: Flower's strategies write the round number into the record that they are given.
        with self._named():
            return list(self.strategy.configure_train(server_round, arrays, ConfigRecord(dict(config)), grid))

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the arrays that the strategy makes of the updates."""
        state = turn.state
        replies = [
            _reply(index, self._weights(state, update, turn.sends), weight, metrics)
            for index, (weight, update, metrics) in enumerate(_alike(turn.total.updates, turn.reports))
        ]
        with self._named():
            arrays, _ = self.strategy.aggregate_train(turn.at.round_number, replies)
        if arrays is None:
            raise RunFailed(f"{type(self.strategy).__name__} made no model of {len(replies)} reports")
        after = {name: packed.numpy() for name, packed in arrays.items()}  # our own process made them: any layout
        if after.keys() != state.keys():
            raise RunFailed(
                f"{type(self.strategy).__name__} made parameters of other names than the model has: "
                f"{sorted(after.keys() ^ state.keys())[:3]}"
            )
        return Step({name: as_before(after[name], array) for name, array in state.items()})

    def _weights(self, state: State, update: Update, sends: Sends) -> State:
        dense = {name: update[name].values.reshape(array.shape) for name, array in state.items()}
        if sends is Sends.WEIGHTS:
            return dense
        return {name: changed_by(state[name], change) for name, change in dense.items()}

    def memory(self) -> dict[str, Array]:
        """Return the attributes of the strategy that have changed since it was made, as FedAdam's moments."""
        return self._attributes.memory()

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Put that back; what had not changed by then is what it was at first."""
        self._attributes.remember(memory)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the strategy's own messages."""
        with self._named():
            return list(self.strategy.configure_evaluate(server_round, arrays, ConfigRecord(dict(config)), grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the strategy's own aggregate of the replies."""
        return self.strategy.aggregate_train(server_round, replies)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the strategy's own aggregate of the replies."""
        with self._named():
            return self.strategy.aggregate_evaluate(server_round, replies)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say in one line what the strategy raises; its traceback follows where Python is asked for it."""
        try:
            yield
        except FedlearnError:
            raise
        except Exception as error:
            name = type(self.strategy).__name__
            raise RunFailed(f"strategy {name}: {' '.join(shortened(error).split())}") from error


def _made(make: Callable[..., Any], given: str | Mapping[str, Any], *, setting: str, name: str) -> Strategy:
    """Return the strategy that a class or function makes of its options."""
    is_strategy = isinstance(make, type) and issubclass(make, Strategy)
    try:
        options = {key: _wrapped(key, value) for key, value in _table(given).items()}
        made = make(**options_for(make, options, setting=setting))
    except FedlearnError:
        raise
    except (Exception, SystemExit) as error:  # of foreign code
        if is_strategy:
            raise SettingError(setting, given, f"{getattr(make, '__name__', name)}: {error}{_hint(error)}") from None
        raise SettingError("strategy.name", name, f"{NO_STRATEGY}: {said(error)}") from None
    if not isinstance(made, Strategy):
        raise SettingError("strategy.name", name, NO_STRATEGY)
    return made


NO_STRATEGY = "it names no flwr.serverapp.strategy.Strategy, nor a function that makes one"


def _table(given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return json.loads(given or "{}") if isinstance(given, str) else given


def _hint(error: BaseException) -> str:
    """Return advice for a wrapper without a wrapped strategy; empty for other errors."""
    missing = f"argument: '{WRAPPED}'" in str(error) or f"'{WRAPPED}' and" in str(error)
    return f'; name what it wraps: strategy.options.{WRAPPED} = "flwr.serverapp.strategy:FedAvg"' if missing else ""


def _wrapped(key: str, value: Any) -> Any:
    """Return the strategy that an option names for a wrapper: ``"module:Class"``, or that with options of its own."""
    if key != WRAPPED or not isinstance(value, str | Mapping):
        return value
    table = {"name": value} if isinstance(value, str) else value
    name, setting = str(table.get("name", "")), f"strategy.options.{WRAPPED}"
    if unknown := sorted(table.keys() - {"name", "options"}):
        raise SettingError(setting, value, f"{unknown[0]!r} is no part of it: write name and options")
    return _made(
        load_plugin(f"{setting}.name", name), table.get("options", {}), setting=f"{setting}.options", name=name
    )


def _alike(
    updates: Sequence[tuple[float, Update]], reports: Sequence[NodeReport]
) -> list[tuple[float, Update, Mapping[str, float]]]:
    """Return the updates with their nodes' metrics: those that most of the nodes have sent.

    Flower's strategies raise for replies whose metrics have different names. A node that leaves out what most have sent
    is left out itself, so that it cannot end the run; what it sends beside is cut off.
    """
    counted = [report for report in reports if report.fate is Fate.REPORTED]
    if len(counted) != len(updates):
        return [(weight, update, {}) for weight, update in updates]
    ((names, _),) = Counter(frozenset(report.metrics) for report in counted).most_common(1)
    alike: list[tuple[float, Update, Mapping[str, float]]] = []
    for (weight, update), report in zip(updates, counted, strict=True):
        if missing := names - report.metrics.keys():
            log.warning("position=%d left out: it has not reported %s", report.position, ", ".join(sorted(missing)))
        else:
            alike.append((weight, update, {name: report.metrics[name] for name in sorted(names)}))
    return alike


def _reply(index: int, weights: State, num_examples: float, metrics: Mapping[str, float]) -> Message:
    content = RecordDict(
        {
            wire.ARRAYS: wire.pack_arrays(weights),
            wire.METRICS: MetricRecord({**metrics, wire.NUM_EXAMPLES: num_examples}),
        }
    )
    return flower.reply_from(node_id=index + 2, message_type="train", reply_to=str(index), content=content, error=None)
