"""Settings that go with a model or a strategy: they stand in for the defaults, and anything that is given wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STRATEGY_OF = {
    "dp-forest": "forest_union",
    "dp-relay": "relay",
    "dp-classifier": "forest_union",
    "dp-random-forest": "forest_union",
    "pf-forest": "forest_union",
}
TREE_MODELS = tuple(STRATEGY_OF)

UNION = {"rounds.total": 1, "rounds.cohort": 0}
"""Every node gives its tree once: a second round would find all budgets spent."""


def with_presets(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat settings with what suits the model and the strategy.

    >>> with_presets({"model.name": "dp-forest"})
    {'strategy.name': 'forest_union', 'rounds.total': 1, 'rounds.cohort': 0, 'model.name': 'dp-forest'}
    """
    preset: dict[str, Any] = {}
    if (model := flat.get("model.name")) in STRATEGY_OF:
        preset["strategy.name"] = STRATEGY_OF[str(model)]
    strategy = {**preset, **flat}.get("strategy.name")
    if strategy == "forest_union":
        preset |= UNION
    elif strategy == "relay":
        # A turn for each node. All are asked, as most have spent their budget: asking them two at a time takes longer.
        clients = flat.get("clients", 100)
        preset |= {"rounds.total": clients, "rounds.cohort": 1, "rounds.invited": clients}
    return preset | dict(flat)
