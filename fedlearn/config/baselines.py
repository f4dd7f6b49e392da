"""Baselines of a federation (``training.baseline``): its settings where one node has all data, or nothing is averaged.

A round of a baseline takes as many steps as a round of the federation: there each example is looked at
``local_epochs * cohort / clients`` times on average, in a baseline each node passes over its examples as often
(``training.passes``). So rounds, learning rates by round and evaluations stand side by side.
"""

from __future__ import annotations

from typing import Any

from fedlearn.config.fields import Settings
from fedlearn.config.schema import RunConfig
from fedlearn.config.tables.attack import AttackSettings
from fedlearn.config.tables.learning_settings import ClientSettings
from fedlearn.config.tables.reports import CompressionSettings, GateSettings, StrategySettings
from fedlearn.config.tables.running_settings import DeviceSettings
from fedlearn.config.tables.secure import SecureSettings

NONE, CENTRAL, LOCAL = "none", "central", "local"

PLAIN: dict[str, Settings] = {
    "client": ClientSettings(),
    "compression": CompressionSettings(),
    "strategy": StrategySettings(),
    "gate": GateSettings(max_ratio=0, max_share=1),  # no report is another node's to judge
    "devices": DeviceSettings(),
    "secure": SecureSettings(),
    "attack": AttackSettings(),
}
"""Tables of which a baseline takes nothing: what lies between nodes and server."""

ROUNDS = {
    "schedule": "synchronous", "schedule_options": "", "selector": "uniform", "selector_options": "", "invited": 0,
    "over_selection": 1.0, "cohort": 0,
}  # fmt: skip
TRAINING = {"proximal_mu": 0.0, "partial": False, "stack": 1}
DATA = {"partition": "iid", "partition_options": ""}  # of one node
EVALUATION = {"beside": ""}  # a node alone has nothing else
NOTES = {
    CENTRAL: "baseline central: one client holds all examples and passes over them %.3g times a round, as often as the "
    "federation's rounds do on average",
    LOCAL: "baseline local: each client trains its own model, %.3g passes over its examples a round; scores are "
    "means over these models; the stored model is their mean, which none uses",
}


def as_baseline(config: RunConfig) -> RunConfig:
    """Return the settings of the baseline that the settings of a federation name; they stay where they name none.

    >>> config = as_baseline(RunConfig(training={"baseline": "central"}))
    >>> config.clients, config.training.passes  # 20 of 100 nodes take 5 passes over their examples
    (1, 1.0)
    >>> as_baseline(config) == config
    True
    """
    training = config.training
    if training.baseline == NONE or training.passes:
        return config
    passes = training.local_epochs * config.goal_count / config.clients
    changed: dict[str, Any] = {
        **PLAIN,
        "rounds": config.rounds.model_copy(update=ROUNDS),
        "training": training.model_copy(update={**TRAINING, "passes": passes}),
        "evaluation": config.evaluation.model_copy(update=EVALUATION),
    }
    if training.baseline == CENTRAL:
        changed["training"] = changed["training"].model_copy(update={"personal": ""})
        changed |= {
            "clients": 1,
            "data": config.data.model_copy(update=DATA),
            "evaluation": config.evaluation.model_copy(update={**EVALUATION, "nodes": 0}),
        }
    return config.model_copy(update=changed)


def note_of(config: RunConfig) -> str:
    """Return what a baseline is, for the results; empty for a federation."""
    passes = config.training.passes
    return NOTES[config.training.baseline] % passes if config.training.baseline in NOTES else ""


FOLLOWS = frozenset({"clients", "rounds.cohort", "training.passes"})
"""Settings whose values in a baseline follow from those of the federation."""


def replaced_by(baseline: str) -> set[str]:
    """Return the settings of the federation that its baseline does not read.

    >>> "strategy.name" in replaced_by("local"), "data.partition" in replaced_by("local"), replaced_by("none")
    (True, False, set())
    """
    if baseline == NONE:
        return set()
    names = {f"{table}.{name}" for table, plain in PLAIN.items() for name in type(plain).model_fields}
    names |= {f"rounds.{name}" for name in ROUNDS if name != "cohort"} | {f"training.{name}" for name in TRAINING}
    names |= {f"evaluation.{name}" for name in EVALUATION}
    if baseline == CENTRAL:
        names |= {f"data.{name}" for name in DATA} | {"evaluation.nodes", "training.personal"}
    return names
