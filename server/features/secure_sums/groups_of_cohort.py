"""The groups of a cohort that have a sum each, and how many of them a strategy needs that takes their means.

Where each group of nodes has a secure sum, the server sees the sum of each group and no report, so a defence takes the
mean change of a group for the change of one node. A node that lies moves the mean of its whole group, and f of them at
most f groups: the bound of a rule is one on groups. An entry that fewer than 2 f + 1 groups sent keeps its value, as f
of them could be its majority.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.secure.groups import coverage, groups_of, level_within, standing
from fedlearn.secure.level import Chosen, chosen
from fedlearn.secure.summands import dropping, most_in_a_group
from strategies.base import RoundStrategy
from strategies.slices_of_run import slices_of


def senders_of(strategy: RoundStrategy[Any]) -> int:
    """Return how many groups must have sent an entry for it to change: 2 f + 1 under a defence, else one."""
    return 2 * strategy.attackers + 1


def check_groups(config: RunConfig, strategy: RoundStrategy[Any]) -> None:
    """Raise SettingError where a full cohort has fewer groups than the strategy needs reports."""
    nodes, size = config.largest_cohort, config.secure.group_size
    if (groups := nodes // size) < strategy.fewest_reports:
        raise SettingError(
            "secure.group_size", size,
            f"a cohort of {nodes} clients has {groups} groups, whose means strategy {config.strategy.name!r} takes for "
            f"reports, and it needs {strategy.fewest_reports} of them: use a larger rounds.cohort, smaller groups, or "
            "fewer strategy.options.attackers",
        )  # fmt: skip
    strategy.check_cohort(groups)


def too_few_groups(config: RunConfig, strategy: RoundStrategy[Any], groups: int) -> str:
    """Return why so many groups are too few for the strategy; empty if they are enough, or it takes no means."""
    if groups >= strategy.fewest_reports or not (config.sums_groups and strategy.takes_groups):
        return ""
    return f"{groups} groups are left, and strategy {config.strategy.name!r} needs {strategy.fewest_reports}"


def groups_in(config: RunConfig, nodes: Sequence[int], at: At) -> list[tuple[int, ...]]:
    """Return the partition ids of each secure sum of an attempt: of all nodes, or of each group of them.

    Where clients have slices, a group has clients of one ratio; those that fill no group are in none.
    """
    size, slices = config.secure.group_size, slices_of(config)
    if not size:
        return [tuple(sorted(nodes))]
    if slices is None:
        return groups_of(nodes, size=size, seed=config.seed, at=at)
    alike, most = slices.by_ratio(nodes), most_in_a_group(config)
    return [
        group
        for each in alike
        if len(each) >= size
        for group in groups_of(each, size=size, seed=config.seed, at=at, most=most)
    ]


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
