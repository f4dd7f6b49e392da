"""Secure sums as a feature of the round: they take the place of configuration and reporting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.errors import CheckpointError
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.log import EventTail
from server.attempt import Collected, NotCommitted
from server.collecting import collected_by
from server.feature import Attempt, Feature
from server.features.secure_sums import collect as sums_of_cohorts
from server.features.secure_sums.groups_of_cohort import coverage_of, level_of
from server.features.secure_sums.pending_unmasking import forget_asked
from server.features.secure_sums.secure_rules import RULES, check_graph
from server.rules import Asked
from server.run import ServerRun
from strategies.base import RoundStrategy


class SecureSums(Feature):
    """The sums of cohorts, masked or, for studies, without masks."""

    run: ServerRun
    rules = RULES

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the server gets sums alone."""
        return config.is_secure

    def check(self, asked: Asked) -> None:
        """Refuse what cannot be done with sums alone, and settings that no graph of masks satisfies."""
        super().check(asked)
        check_graph(asked.config, asked.strategy)

    def notices(self) -> Sequence[str]:
        """Return what the sums promise, and against whom."""
        if self.config.secure.sums == "unmasked":
            return ["secure.sums = unmasked: fixed-point sums without masks, as for a study: protects nobody"]
        return [
            f"secure aggregation: {_level_in_words(self.config)}; against an honest-but-curious server, and against "
            "an active one only where clients list one another as peers (fedlearn client --peers); without noise a sum "
            "protects no record from what the sum itself tells"
        ]

    def collect(self, at: At, collect: Attempt) -> Collected | NotCommitted:
        """Return the sum of a cohort; that of a killed server, where nodes were asked to unmask it, without another."""
        run, begin = self.run, self.run.wall.now()
        forget_asked(run)
        if (asked := sums_of_cohorts.sum_asked_before(run, at)) is not None:
            return Collected(len(asked.members), asked, 0.0, run.wall.now() - begin)
        if not run.exchange.is_virtual:
            run.events.sync()  # nodes remember the attempt: a resumed server must count on from it
        return collected_by(run, at, partial(sums_of_cohorts.collect_sum, run))

    def summary(self) -> Mapping[str, object]:
        """Return what came of masked sums; forget the last that was asked for."""
        with suppress(CheckpointError):
            forget_asked(self.run)
        if self.config.secure.sums != "masked":
            return {}
        self.run.events.flush()
        return {"secure": summed_in(self.run.store.folder / EVENTS)}


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


def _level_in_words(config: RunConfig) -> str:
    size = config.secure.group_size
    if not size:
        return str(level_of(config, config.largest_cohort))
    groups, share = config.largest_cohort // size, coverage_of(config)
    said = f"the server learns the sum of each of {groups} groups of {size} clients or more, {level_of(config, size)}"
    return said + (f"; in a round the groups are expected to send {share:.3f} of the entries" if share < 1 else "")
