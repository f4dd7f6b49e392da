"""Synchronous rounds: selection, configuration, reporting; then commit, or abandon and run again.

Phases after Bonawitz et al. 2019 (arXiv:1902.01046), section 2: a round counts only if enough nodes report in time;
otherwise it is abandoned, the state stays as it was, and the same round number is run again with a new cohort.
"""

from __future__ import annotations

from fedlearn.words.cohort import At
from fedlearn.words.errors import RunFailed
from server.collecting import Collected, NotCommitted, collect
from server.committing import abandon, commit, judged_anew, missing_quorum, next_step
from server.run import ServerRun

LONGEST_BACKOFF = 60.0  # seconds


class Synchronous:
    """Runs round after round, each until it is committed.

    Parameters
    ----------
    run
        What is run.
    """

    def __init__(self, run: ServerRun) -> None:
        self.server = run

    def run(self) -> None:
        """Commit every round that is still to come.

        Raises
        ------
        RunFailed
            When a round has used up its attempts, or no node can ever report; what was committed before is stored, as
            far as ``rounds.store_every`` says.
        """
        self.server.directory.fill()
        for round_number in range(len(self.server.store.history.rounds) + 1, self.server.config.rounds.total + 1):
            self._commit_round(round_number)
        self.end()
        self.server.late.refuse()
        self.server.notices.clear()

    def end(self) -> None:
        """Do what is left to be done when all rounds are committed: nothing, where every attempt ends all it began."""

    def _commit_round(self, round_number: int) -> None:
        rounds, events = self.server.config.rounds, self.server.events
        number, most = 1, rounds.max_attempts
        while True:
            at = At(round_number, number)
            events.write("round-started", **at.where)
            failed = self.attempt(at)
            if failed is None:
                return
            if failed.raised_alike and not self.server.store.history.rounds:
                raise RunFailed(f"every node fails alike, and none has ever reported: {failed.reason}")
            if failed.is_judged_anew and most == rounds.max_attempts:
                most += 1  # once in a round, and at once: it was no fault of the nodes whose reports were sound
            elif number == most:
                break
            else:
                pause = self.pause_before(number + 1)
                events.write("backing-off", **at.where, seconds=pause)
                self.server.clock.sleep(pause)
            number += 1
        raise RunFailed(
            f"round {round_number} was tried {rounds.max_attempts} times (rounds.max_attempts) and never committed; "
            f"last reason: {failed.reason}"
        )

    def pause_before(self, attempt: int) -> float:
        """Return the seconds to wait before an attempt, from the second on: twice as many each time, at most a minute.

        A schedule that waits otherwise, or not at all, overrides it.
        """
        return min(self.server.config.rounds.backoff * 2.0 ** (attempt - 2), LONGEST_BACKOFF)

    def attempt(self, at: At) -> NotCommitted | None:
        """Collect reports once; commit what came, or return why not."""
        collected = collect(self.server, at)
        return collected if isinstance(collected, NotCommitted) else committed_or_not(self.server, collected, at)


def committed_or_not(run: ServerRun, collected: Collected, at: At) -> NotCommitted | None:
    """Commit what was collected, or abandon it and return why.

    That is: reports that must be judged anew, no quorum, or a state that is not finite.
    """
    anew = judged_anew(run, collected.reporting, at, missing_quorum(run, collected.reporting))
    reason = anew or missing_quorum(run, collected.reporting)
    step = None if reason else next_step(run, collected.reporting, at)
    if step is None:
        reason = reason or "the new state would hold NaN or infinity"
        abandon(run, collected.reporting, at, reason)
        return NotCommitted(reason, collected.reporting.raised_alike, is_judged_anew=bool(anew))
    commit(run, step, collected, at)
    return None
