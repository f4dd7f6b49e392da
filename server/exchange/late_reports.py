"""Late reports and answers: what a node sends after its deadline, or after the selection window.

A late report is refused, and its node is notified. A late answer that a node is ready is logged with the seconds that
it was late: a ready query lives for two windows on a network, so that an answer between the first and the second is
found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedlearn import wire
from fedlearn.core.cohort import At, Member
from fedlearn.runs.log import EventLog
from server.exchange.exchange import Exchange, Pending
from server.exchange.notices import Notices


class Missed(NamedTuple):
    """A member whose report did not come in time."""

    member: Member
    at: At


class LateReports:
    """Messages whose reports did not come in time.

    Parameters
    ----------
    keep_paid
        Called before a report is written down: what it has cost its node has to be stored by then.
    """

    def __init__(
        self, exchange: Exchange, events: EventLog, notices: Notices, keep_paid: Callable[[], None] = lambda: None
    ) -> None:
        self._exchange = exchange
        self._events = events
        self._notices = notices
        self._keep_paid = keep_paid
        self._pending: Pending[Missed] = exchange.send([], [], book="")  # as reports: `refuse` counts them

    def expect(self, missing: Mapping[str, Member], at: At) -> None:
        """Watch for answers to these messages, which missed the deadline of this attempt."""
        self._pending.open |= {key: Missed(member, at) for key, member in missing.items()}

    def refuse(self) -> None:
        """Refuse all that has come since; a second answer is counted among the bytes, and no more is said of it."""
        came = [each for each in self._pending.arrivals() if each.reply.has_content()]
        if came:
            self._keep_paid()
        sizes = [wire.bytes_of(each.reply.content) for each in came]
        for each, size in zip(came, sizes, strict=True):
            if not each.again:
                self._refuse(*each.about, size)
        self._exchange.traffic.add_reports(sizes)

    def _refuse(self, member: Member, at: At, size: int) -> None:
        """Log one report and tell its node."""
        self._events.write(
            "late-report-refused", **at.where, node=member.node_id, partition=member.partition_id, bytes=size,
            reason="it came after the reporting deadline",
        )  # fmt: skip
        self._notices.send({member.node_id: "late"}, at)


class Asked(NamedTuple):
    """A node that has not answered a ready query within the window, which ended at `end` of the run's clock."""

    node_id: int
    partition_id: int
    at: At
    end: float


class LateAnswers:
    """Ready queries whose answers did not come in time."""

    def __init__(self, exchange: Exchange, events: EventLog) -> None:
        self._exchange = exchange
        self._events = events
        self._pending: Pending[Asked] = exchange.send([], [])
        self._heard: list[str] = []

    def expect(self, missing: Mapping[str, int], partition_of: Callable[[int], int], at: At, *, end: float) -> None:
        """Watch for the answers of these nodes, by message; a simulated node answers in its window, or never."""
        if not self._exchange.is_virtual:
            self._pending.open |= {key: Asked(node, partition_of(node), at, end) for key, node in missing.items()}

    def hear(self) -> None:
        """Log the answers that have come since."""
        if not self._pending.open:
            return
        for asked, reply, again in self._pending.arrivals():
            if reply.has_content() and not again:  # an error says that the query has expired
                self._log(asked, self._exchange.clock.now() - asked.end)

    def _log(self, asked: Asked, seconds: float) -> None:
        late = f"partition {asked.partition_id} by {seconds:.1f} s"
        self._heard.append(late)
        self._events.write(
            "answered-late", **asked.at.where, node=asked.node_id, partition=asked.partition_id,
            seconds=round(seconds, 3), reason=f"an answer came after the selection window: {late}",
        )  # fmt: skip

    def take_heard(self) -> str:
        """Return the late answers since the last call as the end of a sentence; empty if there were none."""
        heard, self._heard = self._heard, []
        count = "1 answer to an earlier question" if len(heard) == 1 else f"{len(heard)} answers to earlier questions"
        return f"; {count} came after the window: {', '.join(heard)}" if heard else ""
