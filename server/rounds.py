"""What the phases of a round read of the settings."""

from __future__ import annotations

from dataclasses import dataclass

from fedlearn.config import RunConfig
from fedlearn.words.cohort import fewest_reports, needed_of


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """The numbers by which rounds go, derived from the settings once.

    Parameters
    ----------
    total
        How many rounds the run has.
    goal
        How many reports are wanted.
    ready
        How many nodes must be ready for a cohort to be drawn.
    wanted
        How many nodes are drawn: more than the goal where ``rounds.over_selection`` is above 1.
    fewest
        How many reports a round must have to be committed, whatever number of nodes its selector draws: where each
        node adds a share of the noise, the number that the shares are calibrated to; else one.
    quorum
        The share of a cohort that must report.
    over_selects
        Whether more nodes may be drawn than reports are wanted, so that waiting ends with the goal.
    invited
        How many nodes are asked whether they are ready; 0 leaves it to the selector.
    selection_window, reporting_deadline
        In seconds.
    max_attempts
        At one round.
    backoff
        Seconds before the second attempt.
    store_every
        Rounds between two states that are stored.
    """

    total: int
    goal: int
    ready: int
    wanted: int
    fewest: int
    quorum: float
    over_selects: bool
    invited: int
    selection_window: float
    reporting_deadline: float
    max_attempts: int
    backoff: float
    store_every: int

    @classmethod
    def of(cls, config: RunConfig) -> RoundSettings:
        """Return the numbers of a run."""
        rounds, goal = config.rounds, config.goal_count
        fewest = fewest_reports(quorum=rounds.quorum, minimum_ready=rounds.minimum_ready, goal=goal)
        return cls(
            total=rounds.total,
            goal=goal,
            ready=needed_of(rounds.minimum_ready, goal),
            wanted=min(round(rounds.over_selection * goal), config.clients),
            fewest=fewest if config.privacy.trust == "distributed" else 1,
            quorum=rounds.quorum,
            over_selects=rounds.over_selection > 1,
            invited=rounds.invited,
            selection_window=rounds.selection_window,
            reporting_deadline=rounds.reporting_deadline,
            max_attempts=rounds.max_attempts,
            backoff=rounds.backoff,
            store_every=rounds.store_every,
        )

    def quorum_of(self, cohort: int) -> int:
        """Return how many of a cohort must report."""
        of = min(cohort, self.goal) if self.over_selects else cohort
        return max(needed_of(self.quorum, of), self.fewest)
