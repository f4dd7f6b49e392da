"""A node's ledger: bookings and publications of its data, over all runs and servers.

A booking is written and synced before the data are touched, a publication when the answer is kept, and only then does
the answer leave the node. A question that is asked again gets the bytes that were published for it. A crash between the
two lines has spent budget and published nothing.

Entries are `fedlearn.privacy.bookings`, their lines `fedlearn.privacy.ledger_lines`. A `Storage` decides where lines
lie: in files of the node's own (`fedlearn.runs.ledgers`), or in the memory of a simulated node (`client.node_ledger`).
Claims and proofs: README.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy.bookings import Booking, Entry, Publication, bookings
from fedlearn.privacy.budget import PrivacySpent
from fedlearn.privacy.composed import are_within, spent_by
from fedlearn.privacy.ledger_lines import FIRST, FORMAT, LedgerDamaged, check_of, line_of, plain_of, read


class Storage(Protocol):
    """Storage of a ledger's lines and answers.

    Once `append` or `keep` has returned, lines and answers survive any crash.
    """

    name: str
    """Name of the data whose ledger it is."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which no other task spends from this ledger."""
        ...

    def read(self) -> bytes:
        """Return all lines; raise `LedgerDamaged` where lines are known to be missing."""
        ...

    def append(self, lines: bytes) -> None:
        """Append whole lines."""
        ...

    def keep(self, sha256: str, answer: bytes) -> None:
        """Store the bytes of an answer under their SHA-256."""
        ...

    def kept(self, sha256: str) -> bytes:
        """Return the bytes of an answer; no bytes where they are missing."""
        ...

    def is_full(self) -> bool:
        """Return whether there is no room for more answers."""
        ...


class Ledger:
    """The account of one data set, over all runs and servers.

    Parameters
    ----------
    storage : Storage
        Holds the lines and answers; it is read and written by the methods only.
    most : float, default=math.inf
        Largest epsilon of all runs together. If any booking bounds the loss of a *replaced* record, all bookings are
        counted so: the epsilon of an added or removed record counts double.
    most_questions : int, optional
        Largest number of paid questions, whatever they cost; without it there is no limit.
    delta : float, default=0.0
        Probability at which `most` bounds the loss; at 0 no Gaussian mechanism fits.

    Raises
    ------
    LedgerDamaged
        By each method, if the ledger's lines are not as they were written.
    """

    def __init__(
        self, storage: Storage, *, most: float = math.inf, most_questions: int | None = None, delta: float = 0.0
    ) -> None:
        self._storage = storage
        self._most, self._delta = most, delta
        self._most_questions = math.inf if most_questions is None else most_questions

    def once(self, booking: Booking, answer: Callable[[], bytes], *, budget: float, delta: float = 0.0) -> bytes:
        """Return the published answer to a question; without one, book its cost, compute the answer and keep it.

        Parameters
        ----------
        booking : Booking
            The question and its cost.
        answer : callable
            Function that reads the data. It is called after the booking is stored, or not at all.
        budget : float
            Largest epsilon of the booking's run, in the booking's relation.
        delta : float, default=0.0
            Probability at which `budget` bounds the loss of the run; at 0 no Gaussian mechanism fits.

        Raises
        ------
        BudgetExceeded
            If there is no published answer and the cost does not fit the budget; the ledger stays as it is.
        """
        with self._storage.alone():
            entries = self.entries()
            known = self._answer_to(booking.question, entries)
            if known is not None:
                return known
            if not self._fits(booking, budget, delta, entries):
                remaining = self._remaining(booking, budget, delta, entries)
                raise BudgetExceeded(booking.about, epsilon=self._cost(booking, delta), remaining=remaining)
            self._write(booking)
            published = answer()
            digest = hashlib.sha256(published).hexdigest()
            self._storage.keep(digest, published)
            self._write(Publication(booking.question, digest))
            return published

    def published(self, question: str) -> bytes | None:
        """Return the published answer to a question; None without one."""
        return self._answer_to(question, self.entries())

    def covers(self, booking: Booking, *, budget: float, delta: float = 0.0) -> bool:
        """Return whether a booking fits both the budget of its run and the limits of the ledger."""
        return self._fits(booking, budget, delta, self.entries())

    def has_answered(self, run: str, round_number: int) -> bool:
        """Return whether an answer of this run and round is published, and can be sent again."""
        entries = self.entries()
        answered = {entry.question for entry in entries if isinstance(entry, Publication)}
        return any(each.question in answered for each in bookings(entries, run) if each.round_number == round_number)

    def spent(self, run: str = "", *, delta: float | None = None, budget: float = math.inf) -> PrivacySpent:
        """Return what all runs have spent, or one run, of its budget, at the ledger's delta or another one."""
        at = self._delta if delta is None else delta
        return spent_by(bookings(self.entries(), run), delta=at, most=budget if run else self._most)

    def check(self) -> list[Entry]:
        """Return all entries; raise `LedgerDamaged` if an answer is missing or changed."""
        entries = self.entries()
        for number, entry in enumerate(entries, start=FIRST):
            if isinstance(entry, Publication):
                self._kept(entry, number)
        return entries

    def entries(self) -> list[Entry]:
        """Return all entries, in the order in which they were written."""
        return [entry for entry, _ in read(self._storage.read(), name=self._storage.name)]

    def _write(self, entry: Entry) -> None:
        before = self._storage.read()
        head = b"" if before else line_of({"ledger": FORMAT, "data": self._storage.name}, "")
        self._storage.append(head + line_of(plain_of(entry), check_of(before or head)))

    def _answer_to(self, question: str, entries: list[Entry]) -> bytes | None:
        for number, entry in enumerate(entries, start=FIRST):
            if isinstance(entry, Publication) and entry.question == question:
                return self._kept(entry, number)
        return None

    def _kept(self, entry: Publication, number: int) -> bytes:
        answer = self._storage.kept(entry.sha256)
        if hashlib.sha256(answer).hexdigest() != entry.sha256:
            raise LedgerDamaged(number, f"names an answer that is gone or was changed: {entry.sha256}")
        return answer

    def _fits(self, booking: Booking, budget: float, delta: float, entries: list[Entry]) -> bool:
        of_run, in_all = [*bookings(entries, booking.run), booking], [*bookings(entries), booking]
        return (
            self._has_room(entries)
            and are_within(of_run, most=budget, delta=delta)
            and are_within(in_all, most=self._most, delta=self._delta)
        )

    def _has_room(self, entries: list[Entry]) -> bool:
        """Return whether one more question may be asked, by public values only: number and size of answers."""
        return len(bookings(entries)) < self._most_questions and not self._storage.is_full()

    def _remaining(self, booking: Booking, budget: float, delta: float, entries: list[Entry]) -> float:
        if not self._has_room(entries):
            return 0.0
        of_run = spent_by(bookings(entries, booking.run), delta=delta, most=budget)
        in_all = spent_by(bookings(entries), delta=self._delta, most=self._most)
        return max(min(budget - of_run.epsilon, self._most - in_all.epsilon), 0.0)

    def _cost(self, booking: Booking, delta: float) -> float:
        """Return the epsilon of a booking alone."""
        return spent_by([booking], delta=min(delta, self._delta)).epsilon
