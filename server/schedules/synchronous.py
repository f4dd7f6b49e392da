"""The round protocol: selection, configuration, reporting; then commit, or abandon and run again.

Phases after Bonawitz et al. 2019 (arXiv:1902.01046), section 2: a round counts only if enough nodes report in time;
otherwise it is abandoned, the state stays as it was, and the same round number is run again with a new cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.serverapp import Grid

from fedlearn.clock import Clock
from fedlearn.cohort import Fate, needed_of
from fedlearn.compression import Payload, load_downlink
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.base import NodeKeeper, VirtualGrid
from fedlearn.errors import RunFailed
from fedlearn.folding import FoldPlan, Member
from fedlearn.metrics import Measured
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.history import History, RoundOutcome, RoundRecord
from fedlearn.runs.log import EventLog
from fedlearn.seeding import downlink_seed
from fedlearn.state import Sends, State, UpdateKind, layout_of
from server.node_directory import Roll
from server.notices import Notices
from server.phases.configuration import Configuration, configure
from server.phases.evaluation import Evaluator
from server.phases.reporting import LateReports, Reporting, collect_reports
from server.phases.selection import Selection, select_cohort
from strategies import RoundStrategy

LONGEST_BACKOFF = 60.0  # seconds
LATE = 2  # deadlines after which a network forgets an instruction; a report until then is found, and refused as late


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a round; a committed one has all of this, another has what it came to."""

    outcome: RoundOutcome
    reason: str = ""
    selection: Selection | None = None
    configuration: Configuration | None = None
    reporting: Reporting | None = None
    state: State | None = None
    selection_seconds: float = 0.0
    training_seconds: float = 0.0


@dataclass(slots=True)
class Traffic:
    """Bytes of serialised messages since the last commit: those of abandoned attempts count, too."""

    down: int = 0
    up: int = 0
    uploads: int = 0  # how many reports `up` is the size of
    protocol: int = 0

    def add_reports(self, sizes: list[int]) -> None:
        """Count reports by their sizes; a size of zero stands for none."""
        self.up += sum(sizes)
        self.uploads += sum(size > 0 for size in sizes)


class Rounds:
    """Runs rounds until all are committed.

    Parameters
    ----------
    grid
        Any Flower grid; one with workers of its own is used better.
    store
        Holds the state, and takes each committed one.
    kind
        What an update of the model means.
    """

    def __init__(
        self,
        grid: Grid,
        strategy: RoundStrategy,
        store: RunStore,
        config: RunConfig,
        *,
        clock: Clock,
        events: EventLog,
        kind: UpdateKind = UpdateKind.DENSE,
    ) -> None:
        self.grid = grid
        self.strategy = strategy
        self.store = store
        self.config = config
        self.clock = clock
        self.events = events
        self.kind = kind
        self.notices = Notices(grid)
        self.late = LateReports(grid, events, self.notices)
        self.evaluator = Evaluator(grid, strategy, config, clock=clock)
        self.roll = Roll(grid, config, events)
        self._traffic = Traffic()
        self._began = clock.now()
        self._earlier_seconds = store.seconds

    @property
    def seconds(self) -> float:
        """How long the run has taken, over all its sessions."""
        return self._earlier_seconds + self.clock.now() - self._began

    def run(self) -> History:
        """Commit every round that is still to come.

        Raises
        ------
        RunFailed
            When a round has used up its attempts; everything committed before is stored.
        """
        self.roll.call(self.clock)
        for round_number in range(len(self.store.history.rounds) + 1, self.config.rounds.total + 1):
            self._run_round(round_number)
        self.late.refuse()
        self.notices.clear()
        return self.store.history

    def _run_round(self, round_number: int) -> None:
        attempts = self.config.rounds.max_attempts
        reason = ""
        for attempt_number in range(1, attempts + 1):
            self.events.write("round-started", round=round_number, attempt=attempt_number)
            attempt = self._attempt(round_number, attempt_number)
            if attempt.outcome is RoundOutcome.COMMITTED:
                self._commit(attempt, round_number, attempt_number)
                return
            reason = attempt.reason
            if attempt_number < attempts:
                pause = min(self.config.rounds.backoff * 2 ** (attempt_number - 1), LONGEST_BACKOFF)
                self.events.write("backing-off", round=round_number, attempt=attempt_number, seconds=pause)
                self.clock.sleep(pause)
        raise RunFailed(
            f"round {round_number} was tried {attempts} times (rounds.max_attempts) and never committed; "
            f"last reason: {reason}"
        )

    def _attempt(self, round_number: int, attempt: int) -> Attempt:
        """Select, configure, collect; say whether the quorum was reached."""
        begin = self.clock.now()
        self.late.refuse()
        self.notices.clear()
        selection = select_cohort(
            self.grid, self.config, round_number=round_number, attempt=attempt,
            clock=self.clock, events=self.events, notices=self.notices, roll=self.roll,
        )  # fmt: skip
        selected = self.clock.now()
        self._traffic.protocol += selection.bytes_sent
        if not selection.cohort:
            first = f"; first reason: {selection.why_not}" if selection.why_not else ""
            why = f"only {selection.ready} nodes were ready in the selection window{first}"
            return Attempt(RoundOutcome.TOO_FEW_READY, why)
        configuration, reporting = self._train(selection.cohort, round_number, attempt)
        self._tell(configuration.members, reporting, round_number, attempt)
        state = None
        if reason := self._missing(reporting):
            outcome = RoundOutcome.ABANDONED
        else:
            outcome, state = RoundOutcome.COMMITTED, self._next_state(reporting, round_number)
            if state is None:
                outcome, reason = RoundOutcome.ABANDONED, "the new state would hold NaN or infinity"
        if outcome is RoundOutcome.ABANDONED:
            self._abandon(configuration.members, reporting, round_number, attempt, reason)
        return Attempt(
            outcome, reason, selection, configuration, reporting, state,
            selection_seconds=selected - begin, training_seconds=self.clock.now() - selected,
        )  # fmt: skip

    def _missing(self, reporting: Reporting) -> str:
        """Return what the quorum is missed by, or nothing."""
        cohort, reported = len(reporting.reports), reporting.count(Fate.REPORTED)
        needed = needed_of(self.config.rounds.quorum, cohort)
        if reported >= needed:
            return ""
        why = next((f"; first reason: {report.reason}" for report in reporting.reports if report.reason), "")
        return f"{reported} of {cohort} nodes reported, quorum is {needed}{why}"

    def _next_state(self, reporting: Reporting, round_number: int) -> State | None:
        """Return the state that the reports make; None, and the strategy as it was, if that is not finite."""
        memory = self.strategy.memory()
        sends = Sends(self.config.compression.send)
        state = self.strategy.next_state(self.store.state, reporting.total, sends=sends, round_number=round_number)
        if all(np.isfinite(array).all() for array in state.values()):
            return state
        self.strategy.remember(memory)
        return None

    def _train(self, cohort: tuple[Member, ...], round_number: int, attempt: int) -> tuple[Configuration, Reporting]:
        """Send the latest stored state to the cohort and add up its reports."""
        state = self.store.state
        deadline = self.config.rounds.reporting_deadline
        configuration = configure(
            self.strategy,
            state,
            cohort,
            self.grid,
            round_number=round_number,
            attempt=attempt,
            ttl=deadline if isinstance(self.grid, VirtualGrid) else LATE * deadline,
            shrink=self._shrink_for(round_number),
        )
        self.events.write(
            "configured", round=round_number, attempt=attempt, cohort=len(configuration.members),
            bytes=configuration.bytes_down,
        )  # fmt: skip
        plan = FoldPlan(
            gate="server.gate:ReportGate",
            accumulator=self.strategy.accumulator,
            uniform=self.strategy.uniform,
            round_number=round_number,
            attempt=attempt,
            layout=layout_of(state),
            settings=to_flower(self.config),
            kind=self.kind,
        )
        reporting = collect_reports(
            self.grid, configuration, plan,
            deadline=deadline, clock=self.clock, events=self.events, late=self.late,
        )  # fmt: skip
        self._traffic.down += configuration.bytes_down
        self._traffic.add_reports([report.bytes_up for report in reporting.reports])
        return configuration, reporting

    def _shrink_for(self, round_number: int) -> Callable[[State], Payload] | None:
        """Return what makes the states of this round smaller on their way to the nodes."""
        if self.config.compression.downlink == "identity":
            return None
        codec = load_downlink(self.config.compression)
        seed = downlink_seed(self.config.seed, round_number=round_number)
        return lambda state: codec.encode(state, seed=seed)

    def _tell(self, members: Sequence[Member], reporting: Reporting, round_number: int, attempt: int) -> None:
        """Tell the late and the refused nodes that the round is over for them."""
        words = {Fate.LATE: "late", Fate.REFUSED: "refused"}
        told = {
            members[report.position].node_id: words[report.fate] for report in reporting.reports if report.fate in words
        }
        self.notices.send(told, round_number=round_number, attempt=attempt)

    def _abandon(
        self, members: Sequence[Member], reporting: Reporting, round_number: int, attempt: int, reason: str
    ) -> None:
        """Leave the state as it is, and tell those whose reports were in time that they count for nothing."""
        self.events.write("abandoned", round=round_number, attempt=attempt, reason=reason)
        told = {
            members[report.position].node_id: "abandoned"
            for report in reporting.reports
            if report.fate is Fate.REPORTED
        }
        self.notices.send(told, round_number=round_number, attempt=attempt)

    def _commit(self, attempt: Attempt, round_number: int, attempt_number: int) -> None:
        """Evaluate the new state and store it."""
        assert attempt.selection and attempt.configuration and attempt.reporting and attempt.state
        begin = self.clock.now()
        scores = self._evaluate(attempt.state, attempt.configuration, round_number)
        traffic, self._traffic = self._traffic, Traffic()
        traffic.add_reports(self.late.take_sizes())
        before = self.store.history.rounds[-1].measured if self.store.history.rounds else {}
        record = RoundRecord(
            round_number=round_number,
            attempts=attempt_number,
            ready=attempt.selection.ready,
            cohort=len(attempt.configuration.members),
            reported=attempt.reporting.count(Fate.REPORTED),
            failed=attempt.reporting.count(Fate.FAILED),
            refused=attempt.reporting.count(Fate.REFUSED),
            late=attempt.reporting.count(Fate.LATE),
            bytes_down=traffic.down,
            bytes_up=traffic.up,
            uploads=traffic.uploads,
            bytes_protocol=traffic.protocol + self.notices.take_bytes(),
            selection_seconds=attempt.selection_seconds,
            training_seconds=attempt.training_seconds,
            evaluation_seconds=self.clock.now() - begin,
            measured={**self.store.metrics.combined(attempt.reporting.reports, before), **scores},
        )
        self.store.save(
            attempt.state, self.strategy.memory(), record,
            node_states=self.grid.node_states() if isinstance(self.grid, NodeKeeper) else b"",
            seconds=self.seconds,
        )  # fmt: skip
        self.events.write("committed", attempt=attempt_number, **_row_of(record))

    def _evaluate(self, state: State, configuration: Configuration, round_number: int) -> Measured:
        names = [metric.name for metric in self.store.metrics.evaluated]
        if not self.evaluator.is_due(round_number):
            return dict.fromkeys(names)
        self.events.write("evaluating", round=round_number)
        return self.evaluator.evaluate(state, configuration.members, names, round_number=round_number)


def _row_of(record: RoundRecord) -> dict[str, object]:
    row = record.as_row()
    return {"round": row.pop("round_number"), **row}
