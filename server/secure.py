"""What a run with secure sums can have, refused before round 1 where it cannot; and what its result says of it."""

from __future__ import annotations

from typing import Any

from fedlearn.config import RunConfig
from fedlearn.folding.steps import steps_of
from fedlearn.models.loaded import Traits
from fedlearn.secure.level import Chosen, chosen
from fedlearn.words.errors import SettingError
from fedlearn.words.metric import Combine
from fedlearn.words.metrics import Metrics
from fedlearn.words.state import UpdateKind
from strategies.base import RoundStrategy

AVERAGE = "strategies.masked_mean:MaskedSum"  # the accumulator of strategies that need no more than a sum


def check_secure(config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], *, is_virtual: bool) -> None:
    """Refuse what cannot be done with a sum of reports alone, and settings that no graph of masks satisfies."""
    if not config.is_secure:
        return
    for setting, value, is_wrong, why in _wants(config, traits, strategy, is_virtual):
        if is_wrong:
            raise SettingError(setting, value, f"with secure sums {why}")
    for nodes in {config.fewest_ready, config.largest_cohort}:
        level_of(config, nodes)


def _wants(
    config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], is_virtual: bool
) -> list[tuple[str, object, bool, str]]:
    """Return (setting, value, whether it is wrong, why) of all that a secure sum cannot have."""
    rounds, name = config.rounds, config.strategy.name
    steps = steps_of(config.strategy.steps)
    return [
        ("secure.sums", "unmasked", config.secure.sums == "unmasked" and not is_virtual,
         "without masks a server sees each report: use 'masked'; 'unmasked' is for simulations"),
        ("model.name", config.model.name, traits.update_kind is not UpdateKind.DENSE,
         "changes are added up, and this model has none: use a torch module"),
        ("model.name", config.model.name, traits.is_private,
         "nodes that pay for what they publish have no place yet: use secure.sums = 'off'"),
        ("compression.codec", config.compression.codec, config.compression.codec != "identity",
         "reports are fixed-point numbers of secure.bits: use 'identity'"),
        ("rounds.schedule", rounds.schedule, rounds.schedule != "synchronous",
         "all nodes of a sum must be there together: use 'synchronous'"),
        ("rounds.store_every", rounds.store_every, rounds.store_every > 1 and not is_virtual,
         "a resume must not go back behind a sum that nodes were asked for: use 1"),
        ("rounds.selector", rounds.selector, rounds.selector != "uniform",
         "the server has no loss of a node to go by: use 'uniform'"),
        ("strategy.name", name, strategy.accumulator != AVERAGE or strategy.reads_all_metrics,
         f"strategy {name!r} would need each report: use 'fedavg', 'fedavgm' or 'fedadam'"),
        ("strategy.name", name, strategy.reads_reports,
         f"strategy {name!r} needs more than the sum of the states: use 'fedavg', 'fedavgm' or 'fedadam'"),
        ("strategy.steps", config.strategy.steps, bool(steps or strategy.steps),
         "the server has no report of a node to change: use none; secure.clip bounds each entry"),
        ("gate.max_norm", config.gate.max_norm, config.gate.max_norm > 0,
         "the server has no norm of a node to limit: use 0; secure.clip bounds each entry"),
        ("evaluation.where", config.evaluation.where, config.evaluation.where == "nodes",
         "no node says what it has measured alone: use 'server' or 'none'"),
        ("evaluation.nodes", config.evaluation.nodes, config.evaluation.nodes > 0,
         "no node says what it has measured alone: use 0"),
    ]  # fmt: skip


def level_of(config: RunConfig, nodes: int) -> Chosen:
    """Return the graph's neighbors and threshold for a cohort of so many nodes.

    Raises
    ------
    UsageError
        If none is secure, with what to change.
    """
    secure = config.secure
    return chosen(nodes, colluders=secure.colluders, dropouts=secure.dropouts, security=secure.security)


def summed_metrics(metrics: Metrics) -> list[str]:
    """Return the names of the metrics of nodes whose mean a secure sum brings."""
    return [metric.name for metric in metrics.reported if metric.combine is Combine.MEAN]


def secure_notice(config: RunConfig) -> str:
    """Return what a result says of its secure sums; empty without."""
    if not config.is_secure:
        return ""
    if config.secure.sums == "unmasked":
        return "secure.sums = unmasked: fixed-point sums without masks, as for a study: protects nobody"
    level = level_of(config, config.largest_cohort)
    return (
        f"secure sums, {level}; against an honest-but-curious server only, as nodes' keys are not signed; without noise"
        " a sum protects no record from what the sum itself tells"
    )
