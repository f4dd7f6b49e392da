"""How reports become the next state."""

from __future__ import annotations

from typing import Any

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin
from strategies.base import RoundStrategy

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


__all__ = ["STRATEGIES", "RoundStrategy", "load_strategy"]
