"""A schedule that commits the reports of two selections at once; each has its own cohort, window and deadline."""

from fedlearn.core.cohort import At
from server.attempt import NotCommitted
from server.collecting import collect
from server.committing import abandon, committed_or_not
from server.schedules.synchronous import Synchronous


class TwoSelections(Synchronous):
    def attempt(self, at):
        first = collect(self.server, At(at.round_number, 2 * at.attempt - 1))
        if isinstance(first, NotCommitted):
            return first
        second = collect(self.server, At(at.round_number, 2 * at.attempt))
        if isinstance(second, NotCommitted):
            abandon(self.server, first.reporting, at, second.reason)
            return second
        return committed_or_not(self.server, first.joined(second), at)
