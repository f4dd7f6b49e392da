"""A node's ledger: what its data have paid for, over all runs and servers, and what was published for it.

A line is written and synced before the data are touched (`Booking`), another one when the answer is kept
(`Publication`), and only then does the answer leave. A question that comes again gets the bytes that were published for
it. A crash between the two lines has spent the budget, and published nothing.

Each line ends in the SHA-256 of itself and all lines before it. Where the lines lie is the storage's business: in files
of the node's own (`fedlearn.runs.ledgers`), or in the memory of a simulated node (`client.ledger`). Claims and proofs:
README.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from fedlearn.privacy.accountant import SLACK
from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, summed
from fedlearn.words.errors import BudgetExceeded, FedlearnError

FORMAT = 1
FIRST = 2  # number of the line of the first entry


class LedgerDamaged(FedlearnError):
    """A ledger does not hold what was written: nothing is spent on it.

    Parameters
    ----------
    line : int
        The first that is wrong, from 1.
    why : str
        What is wrong with it.
    """

    def __init__(self, line: int, why: str) -> None:
        self.line = line
        super().__init__(f"line {line} {why}")


@dataclass(frozen=True, slots=True)
class Booking:
    """What a question has cost, whether or not it was answered.

    Parameters
    ----------
    question : str
        Digest of all that the answer depends on beside data and noise.
    run : str
        Digest of the settings that its questions have in common; of a share of the data, with ``/SHARE`` behind it.
    about : str
        For people, as the model's name.
    round_number : int
        From 1.
    epsilon : float
        Pure, in nats.
    relation : NeighboringRelation
        Between which data sets epsilon bounds the loss of a record.
    is_secure : bool
        Whether nobody can draw its noise again.
    time : int, default=0
        Seconds since 1970; 0 where nobody asks, as in a simulation.
    """

    kind: ClassVar[str] = "spent"

    question: str
    run: str
    about: str
    round_number: int
    epsilon: float
    relation: NeighboringRelation
    is_secure: bool
    time: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no loss."""
        is_number = isinstance(self.epsilon, int | float) and not isinstance(self.epsilon, bool)
        if not is_number or not 0 <= self.epsilon <= sys.float_info.max:
            raise ValueError(f"epsilon = {self.epsilon!r}: must be a finite number from 0 on")
        object.__setattr__(self, "relation", NeighboringRelation(self.relation))


@dataclass(frozen=True, slots=True)
class Publication:
    """That a question was answered, and by which bytes.

    Parameters
    ----------
    question : str
        As in its `Booking`.
    sha256 : str
        Of the answer, by which the storage keeps it.
    """

    kind: ClassVar[str] = "published"

    question: str
    sha256: str


Entry = Booking | Publication
KINDS: dict[str, type[Entry]] = {kind.kind: kind for kind in (Booking, Publication)}


class Storage(Protocol):
    """Where the lines of a ledger lie, and the answers.

    What was appended or kept is there after any crash, once the call has returned.
    """

    name: str
    """What the data are called whose ledger it is."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a block in which nobody else spends."""
        ...

    def read(self) -> bytes:
        """Return all lines; raises `LedgerDamaged` where it knows of lines that are no longer there."""
        ...

    def append(self, lines: bytes) -> None:
        """Append whole lines."""
        ...

    def keep(self, sha256: str, answer: bytes) -> None:
        """Keep the bytes of an answer."""
        ...

    def kept(self, sha256: str) -> bytes:
        """Return the bytes of an answer, or nothing where they are gone."""
        ...

    def is_full(self) -> bool:
        """Return whether there is no room for more answers."""
        ...


class Ledger:
    """The account of one data set, over all runs and servers.

    Parameters
    ----------
    storage : Storage
        Holds it; nothing is read or written before it is asked.
    most : float, default=math.inf
        The largest epsilon in all. Where any loss is bounded between data sets of which one record is *replaced*, all
        are counted so: those between sets with a record more or less count double.
    most_questions : int, optional
        How many questions are paid for at most, whatever they cost; no limit unless given.

    Raises
    ------
    LedgerDamaged
        By each method, if the ledger does not hold what was written.
    """

    def __init__(self, storage: Storage, *, most: float = math.inf, most_questions: int | None = None) -> None:
        self._storage = storage
        self._most = most
        self._most_questions = math.inf if most_questions is None else most_questions

    def once(self, booking: Booking, answer: Callable[[], bytes], *, budget: float) -> bytes:
        """Return what was published for a question; if nothing was, pay for it, have it answered, and keep the answer.

        Parameters
        ----------
        booking : Booking
            The question, and what it costs.
        answer : callable
            Looks at the data. It is called after the booking is stored, or not at all.
        budget : float
            The largest epsilon of the booking's run, in the booking's relation.

        Raises
        ------
        BudgetExceeded
            If it was not published, and does not fit; nothing is booked.
        """
        with self._storage.alone():
            entries = self.entries()
            known = self._answer_to(booking.question, entries)
            if known is not None:
                return known
            if not self._fits(booking, budget, entries):
                remaining = self._remaining(booking, budget, entries)
                raise BudgetExceeded(booking.about, epsilon=booking.epsilon, remaining=remaining)
            self._write(booking)
            published = answer()
            digest = hashlib.sha256(published).hexdigest()
            self._storage.keep(digest, published)
            self._write(Publication(booking.question, digest))
            return published

    def published(self, question: str) -> bytes | None:
        """Return what was published for a question; None where nothing was."""
        return self._answer_to(question, self.entries())

    def covers(self, booking: Booking, *, budget: float) -> bool:
        """Return whether a booking fits into its run's budget, and into all that may be spent."""
        return self._fits(booking, budget, self.entries())

    def has_answered(self, run: str, round_number: int) -> bool:
        """Return whether an answer of this run and round was published, and can be sent again."""
        entries = self.entries()
        answered = {entry.question for entry in entries if isinstance(entry, Publication)}
        return any(each.question in answered for each in bookings(entries, run) if each.round_number == round_number)

    def spent(self, run: str = "") -> PrivacySpent:
        """Return what was spent in all, or in one run."""
        return total(bookings(self.entries(), run))

    def check(self) -> list[Entry]:
        """Return all entries, after a look whether each answer is still there as it was published."""
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
        self._storage.append(head + line_of({"kind": entry.kind, **asdict(entry)}, check_of(before or head)))

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

    def _fits(self, booking: Booking, budget: float, entries: list[Entry]) -> bool:
        if not self._has_room(entries):
            return False
        of_run = total([*bookings(entries, booking.run), booking]).epsilon
        in_all = total([*bookings(entries), booking]).epsilon
        return of_run <= budget * (1 + SLACK) and in_all <= self._most * (1 + SLACK) and in_all < math.inf

    def _has_room(self, entries: list[Entry]) -> bool:
        """Return whether one more question may be asked: what is looked at is public, as are the answers."""
        return len(bookings(entries)) < self._most_questions and not self._storage.is_full()

    def _remaining(self, booking: Booking, budget: float, entries: list[Entry]) -> float:
        if not self._has_room(entries):
            return 0.0
        of_run, in_all = total(bookings(entries, booking.run)), total(bookings(entries))
        return max(min(budget - of_run.epsilon, self._most - in_all.epsilon), 0.0)


def bookings(entries: Iterable[Entry], run: str = "") -> list[Booking]:
    """Return what was booked, by all runs or one."""
    return [each for each in entries if isinstance(each, Booking) and run in ("", each.run)]


def total(bookings: Iterable[Booking]) -> PrivacySpent:
    """Return what bookings come to: their sum over runs, in replaced records if any of them counts so.

    Of the shares of one run the one that has spent the most counts, as a record lies in one of them, and in which does
    not depend on others: parallel composition. What is bounded for replaced records alone is added up over shares, too.

    >>> from dataclasses import replace
    >>> one = Booking("q", "r", "dp-forest", 1, 0.5, NeighboringRelation.ADD_REMOVE, is_secure=True)
    >>> total([one, one]).epsilon
    1.0
    >>> total([one, replace(one, run="s/0"), replace(one, run="s/1")]).epsilon
    1.0
    """
    listed = list(bookings)
    relations = {each.relation for each in listed} or {NeighboringRelation.ADD_REMOVE}
    common = max(relations, key=lambda relation: relation is NeighboringRelation.REPLACE)
    lines = tuple(SpentLine(each.about, each.epsilon, is_secure=each.is_secure) for each in listed)
    spent = [
        PrivacySpent(line.epsilon, each.relation, PrivacyUnit.RECORD, line.is_secure, (line,)).under(common)
        for each, line in zip(listed, lines, strict=True)
    ]
    shares: dict[tuple[str, str], list[float]] = {}
    for each, loss in zip(listed, spent, strict=True):
        whole = each.run if each.relation is NeighboringRelation.REPLACE else each.run.partition("/")[0]
        shares.setdefault((whole, each.run), []).append(loss.epsilon)
    most: dict[str, float] = {}
    for (whole, _), epsilons in shares.items():
        most[whole] = max(most.get(whole, 0.0), summed(epsilons))
    return PrivacySpent(
        summed(most.values()), common, PrivacyUnit.RECORD, all(each.is_secure for each in spent),
        tuple(line for each in spent for line in each.lines),
    )  # fmt: skip


def read(data: bytes, *, name: str) -> Iterator[tuple[Entry, str]]:
    """Yield the entries of a ledger's lines, each with its running checksum.

    Raises
    ------
    LedgerDamaged
        Naming the first line that is not what was written, or the first line, if they are of other data.
    """
    check = ""
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            raise LedgerDamaged(number, "is cut short")
        body, _, said = line[:-1].rpartition(b" ")
        check = _chained(check, body)
        if said.decode("ascii", "replace") != check:
            raise LedgerDamaged(number, "was changed, or lines before it are gone")
        plain = _plain(body, number)
        if number == 1:
            if plain != {"ledger": FORMAT, "data": name}:
                raise LedgerDamaged(number, f"says that it is no ledger of {name!r}")
            continue
        yield _entry(plain, number), check


def lines_in(data: bytes) -> int:
    """Return how many lines there are."""
    return data.count(b"\n")


def line_of(plain: dict[str, Any], check: str) -> bytes:
    """Return a line that follows one of this running checksum."""
    body = json.dumps(plain, sort_keys=True).encode()
    return body + b" " + _chained(check, body).encode() + b"\n"


def check_of(lines: bytes) -> str:
    """Return the running checksum at the end of whole lines; empty where there are none."""
    return lines.rstrip(b"\n").rpartition(b"\n")[2].rpartition(b" ")[2].decode("ascii", "replace")


def _chained(check: str, body: bytes) -> str:
    return hashlib.sha256(check.encode() + b"\n" + body).hexdigest()


def _plain(body: bytes, number: int) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise LedgerDamaged(number, "is no entry") from None


def _entry(plain: Any, number: int) -> Entry:
    try:
        fields = dict(plain)
        return KINDS[fields.pop("kind")](**fields)
    except (ValueError, TypeError, KeyError):
        raise LedgerDamaged(number, "is no entry") from None
