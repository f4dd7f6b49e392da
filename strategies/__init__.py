"""How reports become the next state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin
from strategies.base import AVERAGE, RoundStrategy

STRATEGIES = Registry(
    "strategy.name",
    tables.STRATEGIES,
    asks=("__call__",),
)
NOT_OPTIONS = ("uniform", "codec", "sends")  # parameters of a strategy that other settings decide


def load_strategy(settings: StrategySettings) -> RoundStrategy[Any]:
    """Return the strategy that the settings name, itself or by a function that makes it; Flower's come wrapped."""
    kind = STRATEGIES.load(settings.name)
    if isinstance(kind, type) and issubclass(kind, RoundStrategy):
        options = options_for(kind, settings.options, setting="strategy.options", reserved=NOT_OPTIONS)
        uniform = settings.weighting == "uniform"
        strategy: RoundStrategy[Any] = call_plugin("strategy.name", settings.name, kind, uniform=uniform, **options)
        return strategy
    if not callable(kind):
        raise SettingError("strategy.name", settings.name, "it names no flwr.serverapp.strategy.Strategy")
    from strategies.plain_flower import PlainFlower

    return PlainFlower.wrap(kind, settings)


def named(fits: Callable[[type[RoundStrategy[Any]]], object]) -> str:
    """Return the strategies of the table that fit, as an error advises them; algorithms, which need more, left out."""
    kinds = {name: STRATEGIES.load(name) for name in STRATEGIES if name not in tables.PRESETS}
    return " or ".join(repr(name) for name, kind in kinds.items() if fits(kind))


def needs_a_sum_alone(kind: type[RoundStrategy[Any]]) -> bool:
    """Return whether a strategy makes the next state of the weighted sum of all updates, and of nothing else."""
    reads = kind.reads_reports or kind.reads_all_metrics
    return UpdateKind.DENSE in kind.accepts and kind.accumulator == AVERAGE and not reads


__all__ = ["STRATEGIES", "RoundStrategy", "load_strategy", "named", "needs_a_sum_alone"]
