"""Reporting: updates are collected until all have answered or the deadline has passed, and added as they come.

A failed node is skipped. A node of which nothing came by the deadline is late: what comes later is refused, and the
node is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fedlearn import wire
from fedlearn.aggregation import BLOCK, STATE, BlockResult, Fold, FoldingTree, FoldPlan, ParcelPlan, merge
from fedlearn.aggregation.offers import Folding
from fedlearn.aggregation.steps import steps_of
from fedlearn.core.clock import Clock
from fedlearn.core.cohort import At, Fate, Member, NodeReport
from fedlearn.core.state import layout_of
from server.attempt import Configuration, Reporting
from server.exchange.exchange import Pending
from server.feature import collected
from server.run import ServerRun

TOLD = {Fate.LATE: "late", Fate.REFUSED: "refused"}
TOGETHER = 64  # reports of a private model that are written down at once, as what they have cost is stored before


def collect_reports(run: ServerRun, configuration: Configuration, at: At, plan: FoldPlan | None = None) -> Reporting:
    """Send the instructions, collect reports until the deadline, and add up those that pass the gate.

    Nodes whose report is late or refused are notified.

    Parameters
    ----------
    plan
        How reports are checked and added up; that of the strategy, unless given.
    """
    plan = plan or fold_plan(run, at, cohort=len(configuration.members))
    reporting = collected(run.features, plan, at, partial(_collected, run, configuration))
    run.exchange.traffic.add_reports(report.bytes_up for report in reporting.reports)
    tell(run, reporting, TOLD, at)
    return reporting


def _collected(run: ServerRun, configuration: Configuration, plan: FoldPlan, at: At) -> Reporting:
    """Return the reports that come until the deadline, added up as a plan says."""
    intake = Intake(configuration.members, Fold(plan), run)
    deadline = run.rounds.reporting_deadline
    if run.exchange.fold is not None:
        _collect_blocks(run.exchange.fold, run.clock, configuration, intake, deadline=deadline)
    else:
        run.late.reports.expect(_collect_replies(run, configuration, intake, deadline=deadline).open, at)
    return intake.closed()


def fold_plan(run: ServerRun, at: At, *, cohort: int) -> FoldPlan:
    """Return how the reports of an attempt are checked and added up."""
    strategy = run.strategy
    steps = (*steps_of(run.config.strategy.steps), *strategy.steps)
    state = ParcelPlan(layout_of(run.state), strategy.accumulator, strategy.uniform, steps=steps)
    return FoldPlan(
        gate=strategy.gate,
        at=at,
        parcels={STATE: state, **run.answers},
        settings=run.flat,
        kind=run.traits.update_kind,
        metrics={name: run.traits.metrics.of_node(name) for name in run.reported_by_nodes},
        reads_all_metrics=strategy.reads_all_metrics,
        cohort=cohort,
        typical=None if run.config.protects_nodes else run.typical,
        block=max(BLOCK, run.config.training.stack),
    )


def tell(run: ServerRun, reporting: Reporting, words: dict[Fate, str], at: At) -> None:
    """Tell members what their fate means for them."""
    told = {
        member.node_id: words[report.fate]
        for member, report in zip(reporting.members, reporting.reports, strict=True)
        if report.fate in words
    }
    run.notices.send(told, at)


def log_end(run: ServerRun, member: Member, report: NodeReport, at: At, **further: object) -> None:
    """Write into the log what became of one member's part in an attempt."""
    timed = run.exchange.timed
    detail: dict[str, Any] = {"device": timed.group_of(member.node_id)} if timed else {}
    if report.reason:
        detail["reason"] = report.reason
    if report.bytes_up:
        detail["bytes"] = report.bytes_up
    if report.num_examples and not run.config.protects_nodes:
        detail |= {"examples": report.num_examples, "norm": float(f"{report.norm:.6g}")}
    # What a node has spent is spent, whatever becomes of the attempt.
    loss = run.traits.metrics.privacy_loss
    detail |= {name: value for name, value in report.metrics.items() if loss is not None and name == loss.name}
    where = {**at.where, "node": member.node_id, "partition": member.partition_id}
    run.events.write(report.fate, **where, **detail, **further)


class Intake:
    """Where reports are written down as they come in."""

    def __init__(self, members: Sequence[Member], fold: Fold, run: ServerRun) -> None:
        self.fold = fold
        self.tree = FoldingTree(fold, len(members))
        self._members = members
        self._reports: dict[int, NodeReport] = {}
        self._counted = 0
        self._run = run
        self._keep_paid = run.keep_paid
        self._unwritten: list[NodeReport] = []  # into the log
        self._together = TOGETHER if run.traits.is_private else 1
        self._clock = run.clock
        self._began = run.clock.now()
        self._seconds: dict[int, float] = {}  # by position
        self._enough = run.config.goal_count if run.rounds.over_selection > 1 else len(members)
        self._at = fold.plan.at

    @property
    def missing(self) -> int:
        """Of how many members nothing has come yet."""
        return len(self._members) - len(self._reports)

    @property
    def has_enough(self) -> bool:
        """Whether waiting can end: of more nodes than wanted, enough have reports that count."""
        return self._counted >= self._enough

    def write(self, report: NodeReport) -> None:
        """Write one report down, and into the log; what it has cost its node is stored."""
        self._note(report)
        self._log(report)

    def _note(self, report: NodeReport) -> None:
        self._reports[report.position] = report
        self._counted += report.fate is Fate.REPORTED
        if report.fate is not Fate.LATE:
            self._seconds[report.position] = self._clock.now() - self._began

    def _log(self, report: NodeReport) -> None:
        log_end(self._run, self._members[report.position], report, self._at)

    def take_block(self, result: BlockResult) -> None:
        """Add the sum of a block or of a part of one, whose memory will be used again, and write its reports down."""
        sums = self.fold.from_arrays(result.arrays)
        positions = [report.position for report in result.reports]
        if not self.tree.takes_at_once(positions):
            copy = self.fold.empty()  # it has to wait for its turn
            merge(copy, sums)
            sums = copy
        self.tree.place_part(positions, sums)
        for report in result.reports:
            self._note(report)
        self._unwritten += result.reports
        if len(self._unwritten) >= self._together:
            self._write_out()

    def _write_out(self) -> None:
        """Store what the reports have cost that are not in the log yet, then write them there."""
        self._keep_paid()
        for report in self._unwritten:
            self._log(report)
        self._unwritten.clear()

    def refuse_second(self, member: Member) -> None:
        """Log that a member has sent another report after its first."""
        reason = f"duplicate: client {member.node_id} has already reported"
        where = {"node": member.node_id, "partition": member.partition_id}
        self._run.events.write(Fate.REFUSED, **self._at.where, **where, reason=reason)

    def closed(self) -> Reporting:
        """Return all reports; a member without one is late."""
        self._write_out()
        for member in self._members:
            if member.position not in self._reports:
                reason = "enough had reported before" if self.has_enough else "no report by the reporting deadline"
                self.write(NodeReport(member.position, Fate.LATE, reason=reason))
        reports = [self._reports[member.position] for member in self._members]
        seconds = [self._seconds.get(member.position) for member in self._members]
        return Reporting(self._members, reports, self.tree.close(), seconds)


def _collect_blocks(
    workers: Folding, clock: Clock, configuration: Configuration, intake: Intake, *, deadline: float
) -> None:
    """Collect from a grid whose workers check and add up for us."""
    end = clock.now() + deadline
    workers.start_blocks(configuration.messages, configuration.members, intake.fold.plan, seconds=deadline)
    parts: list[BlockResult] = []
    try:
        while intake.missing and clock.now() < end:
            for result in workers.pull_blocks(seconds=end - clock.now()):
                intake.take_block(result)
    finally:
        parts = workers.stop_blocks()
    for result in parts:
        intake.take_block(result)


def _collect_replies(
    run: ServerRun, configuration: Configuration, intake: Intake, *, deadline: float
) -> Pending[Member]:
    """Collect from any Flower grid; return the messages that nothing came of."""
    exchange = run.exchange
    sent = [message.content.copy() for message in configuration.messages]  # a simulated node may change its own
    pending = exchange.send(configuration.messages, configuration.members, book="")
    exchange.traffic.down -= wire.bytes_of_all([configuration.messages[each.position] for each in pending.unsent])
    for member in pending.unsent:
        intake.write(NodeReport(member.position, Fate.FAILED, reason="the client is not connected"))
        intake.tree.place(member.position, None)
    for _ in exchange.looks(until=exchange.clock.now() + deadline):
        came = list(pending.arrivals())
        if came:
            run.keep_paid()
        for member, reply, again in came:
            verdict = intake.fold.gate.check(reply, member, sent[member.position])
            if again:
                exchange.traffic.add_reports([verdict.report.bytes_up])
                intake.refuse_second(member)  # whatever it holds: the first one stands
                continue
            intake.write(verdict.report)
            intake.tree.place(member.position, verdict)
        if not pending.open or intake.has_enough:
            break
    return pending
