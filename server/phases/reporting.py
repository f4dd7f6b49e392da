"""Reporting: updates are collected until all have answered or the deadline has passed, and added as they come.

A failed node is skipped. A node of which nothing came by the deadline is late: what comes later is refused, and the
node is told so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.clock import Clock
from fedlearn.cohort import Fate, NodeReport
from fedlearn.engine.base import WorkerGrid
from fedlearn.folding import Accumulator, FoldingTree, FoldPlan, Member
from fedlearn.runs.log import EventLog
from server.notices import Notices
from server.phases.configuration import Configuration
from server.polling import pause


@dataclass(frozen=True, slots=True)
class Reporting:
    """What came of a cohort: one report for each member, in the order of positions, and their sum."""

    reports: Sequence[NodeReport]
    total: Accumulator

    def count(self, fate: Fate) -> int:
        """Return how many members met this fate."""
        return Counter(report.fate for report in self.reports)[fate]


class LateReports:
    """Messages whose reports did not come in time; what arrives later is refused and the node told so."""

    def __init__(self, grid: Grid, events: EventLog, notices: Notices) -> None:
        self._grid = grid
        self._events = events
        self._notices = notices
        self._open: dict[str, tuple[Member, int, int]] = {}
        self._sizes: list[int] = []

    def expect(self, message_ids: dict[str, Member], *, round_number: int, attempt: int) -> None:
        """Watch for reports that missed the deadline of this attempt."""
        self._open |= {key: (member, round_number, attempt) for key, member in message_ids.items()}

    def refuse(self) -> None:
        """Refuse all that has come since."""
        for reply in self._grid.pull_messages(list(self._open)) if self._open else ():
            expected = self._open.pop(reply.metadata.reply_to_message_id, None)
            if expected is None or reply.has_error():
                continue
            member, round_number, attempt = expected
            self._sizes.append(wire.bytes_of(reply.content))
            self._events.write(
                "late-report-refused", round=round_number, attempt=attempt, node=member.node_id,
                partition=member.partition_id, bytes=self._sizes[-1], reason="it came after the reporting deadline",
            )  # fmt: skip
            self._notices.send({member.node_id: "late"}, round_number=round_number, attempt=attempt)

    def take_sizes(self) -> list[int]:
        """Return the size of each report that was refused since the last call."""
        sizes, self._sizes = self._sizes, []
        return sizes


def collect_reports(
    grid: Grid,
    configuration: Configuration,
    plan: FoldPlan,
    *,
    deadline: float,
    clock: Clock,
    events: EventLog,
    late: LateReports,
) -> Reporting:
    """Send the instructions, collect the reports for `deadline` seconds, and add up those that pass the gate."""
    desk = _Desk(configuration.members, plan, events)
    if isinstance(grid, WorkerGrid):
        _collect_blocks(grid, configuration, plan, desk, deadline=deadline, clock=clock)
    else:
        missing = _collect_replies(grid, configuration, plan, desk, deadline=deadline, clock=clock)
        late.expect(missing, round_number=plan.round_number, attempt=plan.attempt)
    return desk.close()


class _Desk:
    """Where reports are written down as they come in."""

    def __init__(self, members: Sequence[Member], plan: FoldPlan, events: EventLog) -> None:
        self.tree = FoldingTree(plan, len(members))
        self._members = members
        self._reports: dict[int, NodeReport] = {}
        self._events = events
        self._where: dict[str, Any] = {"round": plan.round_number, "attempt": plan.attempt}

    def write(self, report: NodeReport) -> None:
        """Write one report down, and into the log."""
        self._reports[report.position] = report
        member = self._members[report.position]
        detail: dict[str, Any] = {"reason": report.reason} if report.reason else {}
        if report.bytes_up:
            detail["bytes"] = report.bytes_up
        self._events.write(report.fate, **self._where, node=member.node_id, partition=member.partition_id, **detail)

    def refuse_second(self, member: Member) -> None:
        """Log that a member has sent another report after its first."""
        reason = f"duplicate: node {member.node_id} has already reported"
        where = {"node": member.node_id, "partition": member.partition_id}
        self._events.write(Fate.REFUSED, **self._where, **where, reason=reason)

    def close(self) -> Reporting:
        """Return what came; members of whom nothing came are late."""
        for member in self._members:
            if member.position not in self._reports:
                reason = "no report by the reporting deadline"
                self.write(NodeReport(member.position, Fate.LATE, reason=reason))
        reports = [self._reports[member.position] for member in self._members]
        return Reporting(reports, self.tree.close())


def _collect_blocks(
    grid: WorkerGrid, configuration: Configuration, plan: FoldPlan, desk: _Desk, *, deadline: float, clock: Clock
) -> None:
    """Collect from a grid whose workers check and add up for us."""
    end = clock.now() + deadline
    grid.start_blocks(configuration.messages, configuration.members, plan, seconds=deadline)
    missing = len(configuration.members)
    try:
        while missing and clock.now() < end:
            for result in grid.pull_blocks(seconds=end - clock.now()):
                total = plan.filled(result.arrays)
                if not desk.tree.is_next(result.block):
                    # It has to wait for its turn, and its memory will be used again: keep a copy.
                    copy = plan.empty()
                    copy.merge(total)
                    total = copy
                desk.tree.place_block(result.block, total)
                for report in result.reports:
                    desk.write(report)
                missing -= len(result.reports)
    finally:
        grid.stop_blocks()


def _collect_replies(
    grid: Grid, configuration: Configuration, plan: FoldPlan, desk: _Desk, *, deadline: float, clock: Clock
) -> dict[str, Member]:
    """Collect from any Flower grid; return the messages that nothing came of."""
    gate = plan.build_gate()
    ids = list(grid.push_messages(configuration.messages))
    begin = clock.now()
    end = begin + deadline
    for message_id, member in zip(ids, configuration.members, strict=True):
        if not message_id:  # Flower's way of saying that there is no such node any more
            desk.write(NodeReport(member.position, Fate.FAILED, reason="the node is not connected"))
            desk.tree.place(member.position, None)
    members = {key: member for key, member in zip(ids, configuration.members, strict=True) if key}
    open_ids = dict(members)
    while open_ids:
        for reply in grid.pull_messages(list(open_ids)):
            member = members[reply.metadata.reply_to_message_id]
            verdict = gate.check(reply, member)
            if open_ids.pop(reply.metadata.reply_to_message_id, None) is None:
                desk.refuse_second(member)  # whatever it holds: the first one stands
                continue
            desk.write(verdict.report)
            desk.tree.place(member.position, verdict)
        now = clock.now()
        if now >= end:
            break
        if open_ids:
            clock.sleep(pause(waited=now - begin, left=end - now))
    return open_ids
