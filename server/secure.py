"""What a run with secure sums can have, refused before round 1 where it cannot; and what its result says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedlearn.aggregation.steps import steps_of
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import Combine
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import UpdateKind
from fedlearn.models.loaded import Traits
from fedlearn.runs.log import EventTail
from fedlearn.secure.groups import coverage, groups_of, level_within, standing
from fedlearn.secure.level import Chosen, chosen
from fedlearn.secure.summands import dropping
from server.grouped import check_groups, senders_of, takes_group_means
from strategies.base import AVERAGE, RoundStrategy
from strategies.fedavg import SPATIAL


def check_secure(config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], *, is_virtual: bool) -> None:
    """Refuse what cannot be done with a sum of reports alone, and settings that no graph of masks satisfies."""
    if not config.is_secure:
        return
    for setting, value, is_wrong, why in _wants(config, traits, strategy, is_virtual):
        if is_wrong:
            raise SettingError(setting, value, f"with secure sums {why}")
    dropping(config)
    if takes_group_means(config, strategy):
        check_groups(config, strategy)
    for nodes in {config.fewest_ready, config.largest_cohort}:
        if nodes < config.secure.group_size:
            raise SettingError(
                "secure.group_size", config.secure.group_size,
                f"a cohort of {nodes} nodes has no group of so many: use smaller groups, or a larger rounds.cohort",
            )  # fmt: skip
        for size in {len(group) for group in groups_in(config, range(nodes), At(1, 1))}:
            level_of(config, size)
    if config.secure.coverage > (expected := coverage_of(config, senders_of(strategy))):
        raise SettingError(
            "secure.coverage", config.secure.coverage,
            f"{_senders_in_words(strategy)} of a full cohort are expected to send {expected:.3f} of the entries: use a "
            "larger keep ratio, smaller groups, a larger rounds.cohort, or a lower coverage",
        )  # fmt: skip


def _wants(
    config: RunConfig, traits: Traits, strategy: RoundStrategy[Any], is_virtual: bool
) -> list[tuple[str, object, bool, str]]:
    """Return (setting, value, whether it is wrong, why) of all that a secure sum cannot have."""
    rounds, name = config.rounds, config.strategy.name
    is_sum = traits.update_kind is UpdateKind.SUMS
    steps = steps_of(config.strategy.steps)
    return [
        ("secure.sums", "unmasked", config.secure.sums == "unmasked" and not is_virtual,
         "without masks a server sees each report: use 'masked'; 'unmasked' is for simulations"),
        ("model.name", config.model.name, traits.update_kind not in (UpdateKind.DENSE, UpdateKind.SUMS),
         "changes or sums are added up, and this model has neither: use a torch module, or 'dp-boosting'"),
        ("model.name", config.model.name, traits.is_private and not is_sum and not config.nodes_add_noise,
         "nodes that pay for a change have no place yet: use secure.sums = 'off'"),
        ("secure.group_size", config.secure.group_size,
         (is_sum or config.nodes_add_noise) and config.secure.group_size > 0,
         "the noise of these sums is that of one sum, and each group would need as much: use 0"),
        ("privacy.public_sizes", config.privacy.public_sizes, is_sum and config.privacy.public_sizes,
         "no node tells its number of records: use false"),
        ("compression.codec", config.compression.codec,
         config.compression.codec != "identity" and not config.secure.group_size,
         "all nodes of a sum send the same entries: use 'identity', or 'drop' with secure.group_size"),
        ("strategy.options.decoder", "spatial", getattr(strategy, "decoder", "") == SPATIAL,
         "all nodes of a group send the same entries, and it takes them for independent: use 'survivors'"),
        ("rounds.schedule", rounds.schedule, rounds.schedule != "synchronous",
         "all nodes of a sum must be there together: use 'synchronous'"),
        ("rounds.store_every", rounds.store_every, rounds.store_every > 1 and not is_virtual,
         "a resume must not go back behind a sum that nodes were asked for: use 1"),
        ("rounds.selector", rounds.selector, rounds.selector != "uniform",
         "the server has no loss of a node to go by: use 'uniform'"),
        ("strategy.name", name,
         not is_sum and not strategy.takes_groups
         and (strategy.accumulator != AVERAGE or strategy.reads_all_metrics),
         f"strategy {name!r} would need each report: use 'fedavg', 'fedavgm' or 'fedadam'"),
        ("strategy.name", name, strategy.takes_groups and not config.secure.group_size,
         f"strategy {name!r} compares reports, and one sum leaves nothing to compare: use secure.group_size, so that "
         "it gets the mean of each group, or 'fedavg'"),
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


def groups_in(config: RunConfig, nodes: Sequence[int], at: At) -> list[tuple[int, ...]]:
    """Return the partition ids of each secure sum of an attempt: of all nodes, or of each group of them."""
    size = config.secure.group_size
    return groups_of(nodes, size=size, seed=config.seed, at=at) if size else [tuple(sorted(nodes))]


def level_of(config: RunConfig, nodes: int) -> Chosen:
    """Return neighbors and threshold of a secure sum of so many nodes: of a cohort, or of a group.

    Raises
    ------
    UsageError
        If none is secure, with what to change.
    """
    secure = config.secure
    if secure.group_size:
        level = level_within(nodes, colluders=secure.colluders)
        return Chosen(level, nodes - max(level.threshold + 1, level.signers))
    return chosen(nodes, colluders=secure.colluders, dropouts=secure.dropouts, security=secure.security)


def coverage_of(config: RunConfig, senders: int = 1) -> float:
    """Return the expected share of entries that at least so many groups of a full cohort send, in [0, 1]."""
    stage, size = dropping(config), config.secure.group_size
    if stage is None or not size:
        return 1.0
    stands = standing(level_within(size, colluders=config.secure.colluders), config.secure.dropouts)
    return coverage(stage.keep_ratio, groups=config.largest_cohort // size, standing=stands, senders=senders)


def _senders_in_words(strategy: RoundStrategy[Any]) -> str:
    senders = senders_of(strategy)
    return f"{senders} or more of the groups" if senders > 1 else "the groups"


def summed_metrics(metrics: Metrics) -> list[str]:
    """Return the names of the metrics of nodes whose mean a secure sum brings."""
    return [metric.name for metric in metrics.reported if metric.combine is Combine.MEAN]


def secure_notice(config: RunConfig) -> str:
    """Return what a result says of its secure sums; empty without."""
    if not config.is_secure:
        return ""
    if config.secure.sums == "unmasked":
        return "secure.sums = unmasked: fixed-point sums without masks, as for a study: protects nobody"
    return (
        f"secure sums, {_level_in_words(config)}; against an honest-but-curious server, and against an active one only "
        "where nodes list one another as peers (fedlearn client --peers); without noise a sum protects no record from "
        "what the sum itself tells"
    )


def _level_in_words(config: RunConfig) -> str:
    size = config.secure.group_size
    if not size:
        return str(level_of(config, config.largest_cohort))
    groups, share = config.largest_cohort // size, coverage_of(config)
    said = f"the server learns the sum of each of {groups} groups of {size} nodes or more, {level_of(config, size)}"
    return said + (f"; in a round the groups are expected to send {share:.3f} of the entries" if share < 1 else "")


def summed_in(events: Path) -> dict[str, object]:
    """Return what came of the secure sums of a run, from its log: of how many rounds, the smallest of how many reports.

    ``own_keys`` says whether all nodes have signed with keys of their own, as only those do that list their peers: a
    roster in which another stands such a node refuses.
    """
    asked, skipped = {}, 0
    for event in EventTail(events).read():
        if event["event"] == "unmasking":
            asked[event.get("round")] = event
        skipped += event["event"] == "skipped"
    sizes = [int(event.get("fewest", 0)) for event in asked.values()]
    own = bool(asked) and all(event.get("own_keys") == event.get("of") for event in asked.values())
    return {"asked": len(asked), "skipped": skipped, "fewest": min(sizes, default=0), "own_keys": own}
