"""How many rounds a federated private model takes, by what is public before round 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.private_trees.sums.rounds import rounds_for


def planned(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return how many rounds boosting on sums takes: by the declared budget, noise, nodes and records.

    Values of a wrong kind give the default: `config_from` refuses them afterwards, by name.
    """
    epsilon = flat.get("privacy.epsilon", defaults.privacy.epsilon)
    nodes = flat.get("clients", defaults.clients) if flat.get("privacy.trust", "local") == "local" else 1
    declared, preset = flat.get("gate.max_examples", defaults.gate.max_examples), defaults.gate.max_examples
    try:
        records = int(declared) * int(flat.get("clients", defaults.clients)) if declared != preset else None
        return rounds_for(float(epsilon), int(nodes), records)
    except (TypeError, ValueError, OverflowError):
        return defaults.rounds.total
