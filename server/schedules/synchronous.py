"""Synchronous rounds: selection, configuration, reporting; then commit, or abandon and run again.

Phases after Bonawitz et al. 2019 (arXiv:1902.01046), section 2: a round counts only if enough nodes report in time;
otherwise it is abandoned, the state stays as it was, and the same round number is run again with a new cohort.
"""

from __future__ import annotations

from fedlearn.core.cohort import At
from server.attempt import NotCommitted
from server.collecting import collect
from server.committing import committed_or_not
from server.schedules.attempts import Attempts


class Synchronous(Attempts):
    """Runs the phases of an attempt one after the other.

    Parameters
    ----------
    run
        What is run.
    """

    def attempt(self, at: At) -> NotCommitted | None:
        """Collect reports once; commit what came, or return why not."""
        collected = collect(self.server, at)
        return collected if isinstance(collected, NotCommitted) else committed_or_not(self.server, collected, at)
