"""Asynchronous rounds: as many nodes as are wanted work all the time, each on the state that was the latest for it.

A round is one commit. It is made of the reports that come until a buffer is full, whatever state each was made of; who
has reported is replaced at once by another node, which is sent the latest state. No node waits for the slowest.

Within one attempt at a round no node is asked twice, as it would send the same again. If no node is in flight any
more, no node is left to be asked, and the buffer is not full, it is committed if it holds the quorum; otherwise the
attempt is abandoned, and all may be asked again.

What must be the same after a resume is a function of what a commit stores: the clock, who is in flight, on which
state, since when. So each step does the same in the same order: fill up, hear, take in one report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, ClassVar

from flwr.app import ArrayRecord

from fedlearn import wire
from fedlearn.aggregation import Verdict
from fedlearn.core.cohort import At, Fate, Member, NodeReport
from fedlearn.core.metric import STALENESS_LARGEST, STALENESS_MEAN, Metric
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Array, Sends, State
from server.attempt import Collected, NotCommitted, Reporting
from server.committing import UnderWay, commit, judged_anew, next_step
from server.gate.limits import FEWEST, RecentReports
from server.phases.configuration import written
from server.phases.quorum import missing_quorum
from server.phases.reporting import TOLD, fold_plan, log_end
from server.run import ServerRun
from server.schedules import PREFIX, schedule_memory
from server.schedules.asynchronous.asynchronous_checks import check_asynchronous, check_parcels
from server.schedules.asynchronous.buffer import Buffer
from server.schedules.asynchronous.gates import Gates
from server.schedules.asynchronous.in_flight import Flight, InFlight, Landed
from server.schedules.asynchronous.staleness import Staleness, measured_of
from server.schedules.attempts import Attempts
from strategies.base import Step

STALE = "stale"
RECENTLY = "recently"  # of the arrays in the checkpoint


class Asynchronous(Attempts):
    """The common base of the asynchronous schedules.

    Parameters
    ----------
    run
        What is run.
    buffer_size
        How many reports make a round.
    in_flight
        How many nodes work at the same time; 0 takes ``rounds.cohort``.
    staleness
        How much a stale report counts.
    largest_staleness
        Commits after which a node that still works is told to stop; 0 sets no limit.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (STALENESS_MEAN, STALENESS_LARGEST)
    check = staticmethod(check_asynchronous)

    def __init__(
        self, run: ServerRun, *, buffer_size: int, in_flight: int, staleness: Staleness, largest_staleness: int
    ) -> None:
        super().__init__(run)
        check_parcels(run)
        self.in_flight = in_flight or run.config.goal_count
        self.buffer_size = buffer_size
        self.staleness = staleness
        self.largest_staleness = largest_staleness
        self.flights = InFlight(run)
        self._stored = schedule_memory(run.store.memory)  # until those are in flight again
        self._recent = RecentReports(self._stored.get(RECENTLY), enough=buffer_size)
        self._gates = Gates(run, cohort=max(buffer_size, FEWEST))
        self._left: deque[int] = deque()  # partitions that were not asked in this attempt, in a random order
        self._asked = 0
        self._packed = ArrayRecord()

    # --- what the schedules differ in ---------------------------------------------------------------------------------

    def factor(self, staleness: int) -> float:
        """Return the factor by which a change of this staleness is multiplied."""
        return self.staleness(staleness)

    def offset(self, sent: State) -> State | None:
        """Return the summand that makes a node's values a change of the state; None if they are one.

        Parameters
        ----------
        sent
            The state that the node was sent, as it has seen it.
        """
        raise NotImplementedError

    @property
    def sends(self) -> Sends:
        """The kind of values that nodes send."""
        return Sends(self.server.config.sends)

    # --- a round ------------------------------------------------------------------------------------------------------

    def attempt(self, at: At) -> NotCommitted | None:
        """Take in reports until the buffer is full, or no node is left; commit them, or return why not."""
        run = self.server
        begin, virtual_begin = run.wall.now(), run.clock.now()
        run.late.reports.refuse()
        run.notices.clear()
        buffer = Buffer(fold_plan(run, at, cohort=self.buffer_size), self.buffer_size)
        self._begin(at)
        run.directory.forgive()
        self._resume(buffer)
        self.flights.compare_with(run.typical)
        run.events.write("collecting", **at.where, wanted=self.buffer_size, in_flight=len(self.flights))
        self.flights.hear()
        self._drop_stale(at, buffer)
        while not buffer.is_full and self._has_landed(at, buffer):
            self._take(self.flights.take(), at, buffer)
        seconds, virtual = run.wall.now() - begin, run.clock.now() - virtual_begin
        return self._ended(Collected(self._asked, buffer.reporting(), 0.0, seconds, (0.0, virtual)), buffer, at)

    def _begin(self, at: At) -> None:
        config = self.server.config
        order = rng_for(config.seed, purpose="cohort", **at._asdict()).permutation(config.clients)
        self._left = deque(order.tolist())
        self._asked = 0
        self._packed = wire.pack_arrays(self.server.state)
        self._gates.forget(self.flights, at)

    def _resume(self, buffer: Buffer) -> None:
        stored, self._stored = self._stored, {}
        if stored:
            node_of = self._holders() if not self.server.exchange.is_virtual else self._node_of_virtual
            self._unconnected(self.flights.resume(stored, node_of), buffer)

    def _has_landed(self, at: At, buffer: Buffer) -> bool:
        """Wait for a report; return False if no node is left that could send one."""
        run = self.server
        while True:
            until = self.flights.until
            until = run.clock.now() + run.rounds.selection_window if until is None else until
            for _ in run.exchange.looks(until=until):
                self._fill(at, buffer)
                self.flights.hear()
                self._drop_overdue(buffer)
                if self.flights.has_landed:
                    return True
            if not self.flights:
                return False

    def _fill(self, at: At, buffer: Buffer) -> None:
        """Send the latest state to as many further nodes as are wanted in flight."""
        if not self._left or len(self.flights) >= self.in_flight:
            return
        node_of = self._holders()
        chosen: list[Member] = []
        skipped: list[int] = []
        while self._left and len(self.flights) + len(chosen) < self.in_flight:
            partition = self._left.popleft()
            node = None if partition in self.flights else node_of(partition)
            if node is None:
                skipped.append(partition)
            else:
                chosen.append(Member(node, partition, 0))
        self._left.extendleft(reversed(skipped))
        if chosen:
            self._send(sorted(chosen, key=lambda member: member.partition_id), at, buffer)

    def _send(self, chosen: list[Member], at: At, buffer: Buffer) -> None:
        run = self.server
        configuration = written(run, chosen, at, self._packed, first=self._asked)
        self._asked += len(configuration.members)
        run.exchange.traffic.down += configuration.bytes_down
        run.events.write("configured", **at.where, cohort=len(configuration.members), bytes=configuration.bytes_down)
        unsent = self.flights.send(configuration, at)
        run.exchange.traffic.down -= sum(wire.bytes_of(flight.sent) for flight in unsent)
        self._unconnected(unsent, buffer)

    def _holders(self) -> Any:
        return self.server.directory.holders(ttl=self.server.rounds.reporting_deadline)

    def _node_of_virtual(self, partition: int) -> int:
        nodes = self.server.exchange.nodes_by_partition()
        assert nodes is not None
        return nodes[partition]

    # --- how flights end ----------------------------------------------------------------------------------------------

    def _take(self, landed: Landed, at: At, buffer: Buffer) -> None:
        """Take in one report: it counts, or is refused."""
        run, (flight, reply, again) = self.server, landed
        gate = self._gates.of(flight)
        verdict = gate.check(reply, flight.member, flight.sent)
        run.exchange.traffic.add_reports([verdict.report.bytes_up])
        if again:
            where = {**flight.at.where, "node": flight.member.node_id, "partition": flight.member.partition_id}
            reason = f"duplicate: client {flight.member.node_id} has already reported"
            run.events.write(Fate.REFUSED, **where, reason=reason)
            return
        for each in run.features:
            each.answered(flight.member, flight.at, reply)
        staleness = at.round_number - flight.at.round_number
        if verdict.parcels and self._is_stale(flight, at):
            reason = self._why_stale(staleness)
            verdict = Verdict(verdict.report._replace(fate=Fate.REFUSED, reason=reason, num_examples=0, metrics={}))
        self._end(flight, verdict.report, buffer, seconds=run.clock.now() - flight.begun, staleness=staleness)
        if verdict.parcels:
            offset = self.offset(gate.state_in(flight.sent, anchor=flight.anchor))
            buffer.count(verdict, staleness, factor=self.factor(staleness), offset=offset)

    def _end(
        self, flight: Flight, report: NodeReport, buffer: Buffer, *, seconds: float | None = None, **further: object
    ) -> None:
        """Write down what became of a node, and tell it where it would not know."""
        log_end(self.server, flight.member, report, flight.at, **further)
        buffer.end(flight.member, report, flight.at, seconds)
        if report.fate in TOLD:
            self.server.notices.send({flight.member.node_id: TOLD[report.fate]}, flight.at)

    def _drop(self, flights: Iterable[Flight], why: str, buffer: Buffer | None) -> None:
        """Wait no longer for nodes, and tell them, all of one attempt at once."""
        dropped = list(flights)
        self.flights.give_up(dropped)
        for flight in dropped:
            report = NodeReport(flight.member.position, Fate.LATE, reason=why)
            log_end(self.server, flight.member, report, flight.at)
            if buffer is not None:
                buffer.end(flight.member, report, flight.at, None)
        for at, together in groupby(dropped, key=lambda flight: flight.at):
            self.server.notices.send({flight.member.node_id: TOLD[Fate.LATE] for flight in together}, at)

    def _drop_overdue(self, buffer: Buffer) -> None:
        now = self.server.clock.now()
        if self.flights.until is not None and self.flights.until <= now:
            overdue = [flight for flight in self.flights if flight.until <= now]
            self._drop(overdue, "no report by the reporting deadline", buffer)

    def _is_stale(self, flight: Flight, at: At) -> bool:
        return 0 < self.largest_staleness < at.round_number - flight.at.round_number

    def _why_stale(self, staleness: int) -> str:
        return f"{STALE}: {staleness} commits since it was sent the state, allowed are {self.largest_staleness}"

    def _drop_stale(self, at: At, buffer: Buffer) -> None:
        if not self.largest_staleness:
            return
        stale = [flight for flight in self.flights if self._is_stale(flight, at)]
        self._drop(stale, self._why_stale(self.largest_staleness + 1), buffer)

    def _unconnected(self, flights: Iterable[Flight], buffer: Buffer) -> None:
        for flight in flights:
            report = NodeReport(flight.member.position, Fate.FAILED, reason="the client is not connected")
            self._end(flight, report, buffer)

    def end(self) -> None:
        """Tell those that still work that the run is over; the bytes of reports that wait to be taken in count."""
        waiting = self.flights.landed
        came = [self._gates.of(flight).check(reply, flight.member, flight.sent) for flight, reply, _ in waiting]
        self.server.exchange.traffic.add_reports(verdict.report.bytes_up for verdict in came)
        self._drop(self.flights.everyone, "the run is over", None)

    # --- judging and committing ---------------------------------------------------------------------------------------

    def _ended(self, collected: Collected, buffer: Buffer, at: At) -> NotCommitted | None:
        run, reporting = self.server, collected.reporting
        missing = missing_quorum(run, reporting, self.buffer_size)
        anew = judged_anew(run, reporting, at, missing)
        reason = anew or missing
        step = None if reason else next_step(run, reporting, at, Sends.UPDATE)
        if step is None:
            reason = reason or "the new state would hold NaN or infinity"
            self._abandon(reporting, buffer.instructed, at, reason)
            return NotCommitted(reason, reporting.raised_alike, is_judged_anew=bool(anew))
        run.typical = self._recent.typical_after(reporting.reports) or run.typical
        step = Step(step.state, {**step.measured, **measured_of(buffer.staleness)})
        commit(run, step, collected, at, lambda: UnderWay(self._memory(), self.flights.versions))
        return None

    def _abandon(self, reporting: Reporting, instructed: Sequence[At], at: At, reason: str) -> None:
        """Leave the state as it is; tell those whose reports were sound, unless they are at work again.

        Each notice names the attempt of the node's instruction, which may be an earlier one.
        """
        run = self.server
        run.events.write("abandoned", **at.where, reason=reason)
        for member, report, of in zip(reporting.members, reporting.reports, instructed, strict=True):
            if report.fate is Fate.REPORTED and member.partition_id not in self.flights:
                run.notices.send({member.node_id: "abandoned"}, of)

    def _memory(self) -> dict[str, Array]:
        stored = {**self.flights.memory(), RECENTLY: self._recent.memory()}
        return {f"{PREFIX}{name}": array for name, array in stored.items()}
