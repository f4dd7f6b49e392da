"""How many nodes of a cohort must report for a round to count."""

from __future__ import annotations

from fedlearn.config import RunConfig
from fedlearn.core.cohort import Fate, needed_of
from server.attempt import Reporting
from server.run import ServerRun


def quorum_of(config: RunConfig, cohort: int) -> int:
    """Return how many of a cohort must report, whatever number of nodes the selector drew.

    With Poisson sampling every draw counts, whoever reports, also if all that were drawn have failed: what was drawn
    anew until others report would be another sampling, at a higher rate for the nodes that do.
    Where each node adds a share of the noise, they are at least as many as the shares are calibrated to.
    """
    if config.samples_poisson:
        return 0
    wanted = min(cohort, config.goal_count) if config.rounds.over_selection > 1 else cohort
    fewest = config.fewest_reports if config.privacy.trust == "distributed" else 1
    return max(needed_of(config.rounds.quorum, wanted), fewest)


def missing_quorum(run: ServerRun, reporting: Reporting, wanted: int = 0) -> str:
    """Return why the quorum is missed; empty if it is not. It is a share of the wanted nodes, or of the cohort."""
    cohort, reported = len(reporting.reports), reporting.count(Fate.REPORTED)
    quorum = needed_of(run.rounds.quorum, wanted) if wanted else quorum_of(run.config, cohort)
    needed = max(quorum, run.strategy.fewest_reports) if quorum else 0
    if reported >= needed:
        return ""
    reasons = [report.reason for report in reporting.reports if report.reason and report.fate is not Fate.REPORTED]
    asked = f"quorum is {needed}"
    if needed > quorum:
        asked = f"strategy {run.config.strategy.name!r} needs {needed} to stand its attackers"
        if any("gate.max_ratio" in reason for reason in reasons):
            asked += ": gate.max_ratio = 0 leaves it to judge all updates"
    why = f"; first reason: {reasons[0]}" if reasons else ""
    return f"{reported} of {cohort} clients reported, {asked}{why}"
