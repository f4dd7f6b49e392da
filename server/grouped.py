"""Whether a strategy gets the means of groups for reports, and how many groups it needs.

Where each group of nodes has a secure sum, the server sees the sum of each group and no report, so a defence takes the
mean change of a group for the change of one node. A node that lies moves the mean of its whole group, and f of them at
most f groups: the bound of a rule is one on groups. An entry that fewer than 2 f + 1 groups sent keeps its value, as f
of them could be its majority.
"""

from __future__ import annotations

from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from strategies.base import RoundStrategy


def takes_group_means(config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
    """Return whether the strategy gets the mean of each group for a report."""
    return config.is_secure and config.secure.group_size > 0 and strategy.takes_groups


def senders_of(strategy: RoundStrategy[Any]) -> int:
    """Return how many groups must have sent an entry for it to change: 2 f + 1 under a defence, else one."""
    return 2 * strategy.attackers + 1


def check_groups(config: RunConfig, strategy: RoundStrategy[Any]) -> None:
    """Raise SettingError where a full cohort has fewer groups than the strategy needs reports."""
    nodes, size = config.largest_cohort, config.secure.group_size
    if (groups := nodes // size) < strategy.fewest_reports:
        raise SettingError(
            "secure.group_size", size,
            f"a cohort of {nodes} nodes has {groups} groups, whose means strategy {config.strategy.name!r} takes for "
            f"reports, and it needs {strategy.fewest_reports} of them: use a larger rounds.cohort, smaller groups, or "
            "fewer strategy.options.attackers",
        )  # fmt: skip
    strategy.check_cohort(groups)


def too_few_groups(config: RunConfig, strategy: RoundStrategy[Any], groups: int) -> str:
    """Return why so many groups are too few for the strategy; empty if they are enough, or it takes no means."""
    if groups >= strategy.fewest_reports or not takes_group_means(config, strategy):
        return ""
    return f"{groups} groups are left, and strategy {config.strategy.name!r} needs {strategy.fewest_reports}"
