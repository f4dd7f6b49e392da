"""Presets: settings that go with a model or an algorithm. They replace defaults; a setting that the user gives wins.

Presets follow from the model's row (`ModelSpec`), and from the row of an algorithm in `PRESETS`; a strategy
from outside brings its learner. Who asks what nodes have beside their models (`evaluation.beside`) gets nodes and test
examples for it. The commands and the experiments fill them in where a user gives settings. Settings that are read back,
from a run folder or from Flower, are complete already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.config import RunConfig, config_from
from fedlearn.config.load import Source
from fedlearn.config.schema import DP_SGD
from fedlearn.models import model_spec
from fedlearn.plugins.registry import call_plugin, load_plugin
from fedlearn.plugins.tables import PRESETS

DEFAULTS = RunConfig()
TEST_SHARE = 0.2  # of a node's examples, where nodes are compared with themselves alone
MOST_NODES = 0.95  # share of wanted nodes that must be ready, and of these that must report, with distributed noise


def settings_from(flat: Mapping[str, Any], *, source: Source = "") -> RunConfig:
    """Return the user's settings with the model's presets; for errors see `config_from`."""
    return config_from(with_presets(flat), source=source)


def with_presets(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat settings with the model's presets.

    >>> with_presets({"model.name": "dp-forest"})
    {'strategy.name': 'forest_union', 'rounds.total': 1, 'rounds.cohort': 0, 'model.name': 'dp-forest'}
    """
    name = flat.get("model.name", DEFAULTS.model.name)
    if not isinstance(name, str):
        return dict(flat)  # which `config_from` refuses
    row = model_spec(name)
    preset: dict[str, Any] = {"strategy.name": row.strategy} if row.strategy else {}
    if row.all_rows:
        preset["evaluation.where"] = "none"
    if flat.get("privacy.protects") == "records":
        preset["training.learner"] = DP_SGD
    is_distributed = flat.get("privacy.trust") == "distributed"
    protects_nodes = flat.get("privacy.protects") == "nodes" and row.trains_in_steps
    if protects_nodes:
        preset |= {"strategy.weighting": "uniform", "compression.send": "update", "privacy.trust": "central"}
    if flat.get("strategy.name", row.strategy) == row.strategy:
        if row.rounds == "once":
            # Every node sends all it has: in a second round all budgets would be spent.
            preset |= {"rounds.total": 1, "rounds.cohort": 0}
        elif row.is_planned:
            preset |= {"rounds.total": _rounds_by(row.rounds, flat), "rounds.cohort": 0}
        elif row.rounds == "turns":
            # All nodes are asked, as most have spent their budget: asking two at a time takes longer.
            clients = flat.get("clients", DEFAULTS.clients)
            preset |= {"rounds.total": clients, "rounds.cohort": 1, "rounds.invited": clients}
    if protects_nodes and is_distributed:
        preset["secure.sums"] = "masked"
    if (row.sums or protects_nodes) and is_distributed:
        # Noise is calibrated to the fewest reports; a round that is run again costs the nodes nothing.
        preset |= {"rounds.minimum_ready": MOST_NODES, "rounds.quorum": MOST_NODES}
    return preset | _of_algorithm({**preset, **flat}.get("strategy.name")) | _of_beside(flat) | dict(flat)


def _of_beside(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nodes and test examples for what nodes measure beside their models; empty where nothing is asked.

    >>> _of_beside({"evaluation.beside": "alone", "clients": 5}), _of_beside({})
    ({'evaluation.nodes': 5, 'data.node_test_share': 0.2}, {})
    """
    if not flat.get("evaluation.beside"):
        return {}
    has_own = flat.get("data.partition") == "natural"  # test examples of each group
    held_out = {} if has_own else {"data.node_test_share": TEST_SHARE}
    return {"evaluation.nodes": flat.get("clients", DEFAULTS.clients), **held_out}


def _of_algorithm(name: object) -> dict[str, Any]:
    """Return the settings of nodes that go with a strategy.

    >>> _of_algorithm("feddyn"), _of_algorithm("fedavg")
    ({'training.learner': 'feddyn', 'training.proximal_mu': 0.1}, {})
    """
    if not isinstance(name, str) or ":" not in name:
        return dict(PRESETS.get(str(name), {}))
    learner = getattr(load_plugin("strategy.name", name), "learner", "")
    return {"training.learner": learner} if isinstance(learner, str) and learner else {}


def _rounds_by(reference: str, flat: Mapping[str, Any]) -> Any:
    """Return the number of rounds by a row's function; `config_from` refuses any other value."""
    return call_plugin("model.name", reference, load_plugin("model.name", reference), flat, DEFAULTS)
