"""The number of rounds of a federated private model, from settings that are public before round 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.private_trees.sums.rounds_search import rounds_for


def planned(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return the number of rounds of boosting on sums, which follows from declared budget, noise, nodes and records.

    Settings of a wrong type give the default number: `config_from` refuses such settings afterwards, by name.
    """
    epsilon = flat.get("privacy.epsilon", defaults.privacy.epsilon)
    nodes = flat.get("clients", defaults.clients) if flat.get("privacy.trust", "local") == "local" else 1
    declared, preset = flat.get("gate.max_examples", defaults.gate.max_examples), defaults.gate.max_examples
    try:
        records = int(declared) * int(flat.get("clients", defaults.clients)) if declared != preset else None
        return rounds_for(float(epsilon), int(nodes), records)
    except (TypeError, ValueError, OverflowError):
        return defaults.rounds.total
