"""Late reports: a report after the reporting deadline is refused, and its node is notified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedlearn import wire
from fedlearn.runs.log import EventLog
from fedlearn.words.cohort import At, Member
from server.exchange import Exchange, Pending
from server.notices import Notices


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
