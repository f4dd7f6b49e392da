"""Which of the ready nodes take part: one file a selector."""

from __future__ import annotations

from collections.abc import Mapping

from fedlearn.config import RunConfig
from fedlearn.core.state import Array
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import Registry, call_plugin
from server.selectors.selector import Participation, Selector

PREFIX = "selector/"  # of its arrays in the checkpoint
SELECTORS = Registry(
    "rounds.selector",
    tables.SELECTORS,
    asks=("draw", "learn", "memory", "remember"),
)


def load_selector(config: RunConfig) -> Selector:
    """Return the selector that the settings name, with its options."""
    name = config.rounds.selector
    kind = SELECTORS.load(name)
    options = options_for(
        kind,
        config.rounds.selector_options,
        setting="rounds.selector_options",
        reserved=("clients", "seed", "is_secret"),
    )
    if config.samples_poisson:
        options = {**options, "is_secret": config.privacy.noise == "secure"}
    selector: Selector = call_plugin("rounds.selector", name, kind, clients=config.clients, seed=config.seed, **options)
    return selector


def selector_memory(selector: Selector) -> dict[str, Array]:
    """Return the memory of a selector, under names that no strategy has."""
    return {f"{PREFIX}{name}": array for name, array in selector.memory().items()}


def remember(selector: Selector, memory: Mapping[str, Array]) -> dict[str, Array]:
    """Give a selector back what `selector_memory` returned; return the rest."""
    learned = {name.removeprefix(PREFIX): array for name, array in memory.items() if name.startswith(PREFIX)}
    if learned:
        selector.remember(learned)
    return {name: array for name, array in memory.items() if not name.startswith(PREFIX)}


__all__ = ["SELECTORS", "Participation", "Selector", "load_selector", "remember", "selector_memory"]
