"""What all schedules share: round after round, each tried until it is committed or its attempts are used up."""

from __future__ import annotations

from fedlearn.core.cohort import At
from fedlearn.core.errors import RunFailed
from fedlearn.runs.file_names import ASKED_SUM, EVENTS
from fedlearn.runs.log import EventTail
from server.attempt import RUN_AGAIN, NotCommitted
from server.run import ServerRun

LONGEST_BACKOFF = 60.0  # seconds


class Attempts:
    """Runs round after round, each until it is committed.

    Parameters
    ----------
    run
        What is run.
    """

    def __init__(self, run: ServerRun) -> None:
        self.server = run

    def run(self) -> None:
        """Commit every round that is still to come, or as many as it takes to stop early.

        Raises
        ------
        RunFailed
            When a round has used up its attempts, or no node can ever report; what was committed before is stored, as
            far as ``rounds.store_every`` says.
        """
        server = self.server
        server.directory.fill()
        first = len(server.store.history.rounds) + 1
        server.finish(server.state)
        for round_number in range(first, server.rounds.total + 1):
            if server.stopping.reason:
                server.events.write("stopped", round=round_number - 1, reason=server.stopping.reason)
                break
            self._commit_round(round_number, attempts_before(server, round_number) if round_number == first else 0)
        self.end()
        if server.traits.finishes:
            server.stopping.check_result()
        server.late.reports.refuse()
        server.late.answers.hear()
        server.notices.clear()

    def end(self) -> None:
        """Do what is left to be done when all rounds are committed: nothing, where every attempt ends all it began."""

    def _commit_round(self, round_number: int, before: int = 0) -> None:
        rounds, events = self.server.rounds, self.server.events
        number, most, outcome = before + 1, before + rounds.max_attempts, ""
        while True:
            at = At(round_number, number)
            events.write("round-started", **at.where)
            failed = self.attempt(at)
            if failed is None:
                return
            if failed.raised_alike and not self.server.store.history.rounds:
                raise RunFailed(f"every client fails alike, and none has ever reported: {failed.reason}")
            if failed.outcome and failed.outcome == outcome:
                raise RunFailed(
                    f"round {round_number} was tried twice by the same clients, which reported the same: it can never "
                    f"be committed; reason: {failed.reason}"
                )
            outcome = failed.outcome
            if failed.is_judged_anew and most == before + rounds.max_attempts:
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
            f"last reason: {failed.reason.removesuffix(RUN_AGAIN)}"
        )

    def pause_before(self, attempt: int) -> float:
        """Return the seconds to wait before an attempt, from the second on: twice as many each time, at most a minute.

        A schedule that waits otherwise, or not at all, overrides it.
        """
        return min(self.server.rounds.backoff * 2.0 ** (attempt - 2), LONGEST_BACKOFF)

    def attempt(self, at: At) -> NotCommitted | None:
        """Try a round once: commit it, or return why not."""
        raise NotImplementedError


def attempts_before(run: ServerRun, round_number: int) -> int:
    """Return how many attempts at a round a killed server has made that nodes remember, as those of secure sums do.

    An attempt whose sum was asked for is the last of them, and goes on under its own number.
    """
    if not run.config.is_secure or run.exchange.is_virtual:
        return 0
    tried = (
        event["attempt"]
        for event in EventTail(run.store.folder / EVENTS).read()
        if event.get("event") == "round-started" and event.get("round") == round_number
    )
    goes_on = (run.store.folder / ASKED_SUM).exists()
    return max(max(tried, default=0) - goes_on, 0)
