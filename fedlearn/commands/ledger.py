"""``fedlearn ledger``: what a node's data have paid for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fedlearn.core.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from fedlearn.privacy.bookings import Booking
    from fedlearn.runs.ledgers import LedgerFile


Found = TypeVar("Found")


class Action(StrEnum):
    """What to do with ledgers."""

    SHOW = "show"
    CHECK = "check"


def ledger(
    action: Annotated[Action, typer.Argument(help="List the spent budget, or check the files for changes.")],
    folder: Annotated[Path, typer.Argument(help="The clients' --ledger.")],
    delta: Annotated[float, typer.Option(help="Delta for Gaussian noise; pure epsilon needs none.")] = 1e-6,
) -> None:
    """Show the spent privacy budget of clients' own data, run by run, or check that no line was changed or deleted.

    A line of Gaussian noise has its noise multiplier (z), rounds and sampling rate instead of an epsilon. The sum is
    that of an adaptive filter: it holds even if servers choose by earlier answers.

    The sets of clients of exact sums (NAME.sets) are counted, and checked in the same way. Exit code 1 if a file was
    changed, with its first bad line; 2 if there is none.
    """
    from fedlearn.runs import node_sets
    from fedlearn.runs.ledgers import LedgerFile, names_in

    if not 0 < delta < 1:
        raise UsageError(f"--delta {delta:g}: must be a probability above 0 and below 1")
    names, summed = names_in(folder), names_in(folder, suffix=node_sets.SUFFIX)
    if not names and not summed:
        raise UsageError(f"{folder}: there is no ledger: name the folder that clients have as --ledger")
    for name in names:
        file = LedgerFile(folder, name)
        _checked(file, delta) if action is Action.CHECK else _show(file, delta)
    for name in summed:
        _sets(LedgerFile(folder, name, suffix=node_sets.SUFFIX))


def _sets(file: LedgerFile) -> None:
    from fedlearn.runs.node_sets import sets_in

    sets = _sound(file, lambda: sets_in(file.read()))
    print(f"{file.path}: sound; exact sums over {len(sets)} sets of clients")


def _checked(file: LedgerFile, delta: float) -> None:
    from fedlearn.privacy.bookings import bookings
    from fedlearn.privacy.ledger import Ledger

    found = Ledger(file)
    entries = _sound(file, found.check)
    booked = len(bookings(entries))
    print(f"{file.path}: sound; {booked} bookings, {len(entries) - booked} published, {found.spent(delta=delta)}")


def _show(file: LedgerFile, delta: float) -> None:
    from fedlearn.core.metric import EPSILON
    from fedlearn.privacy.bookings import Publication, bookings
    from fedlearn.privacy.composed import spent_by
    from fedlearn.privacy.ledger import Ledger
    from fedlearn.report.tables import Table

    entries = _sound(file, Ledger(file).entries)
    answered = {entry.question for entry in entries if isinstance(entry, Publication)}
    rows, so_far = [], []
    booked = bookings(entries)
    for each in booked:
        so_far.append(each)
        when = datetime.fromtimestamp(each.time, UTC).strftime("%Y-%m-%d %H:%M") if each.time else "-"
        noise = "secure" if each.is_secure else "seeded"
        relation = each.relation.value.replace("record", each.unit.word)
        cost = (_cost(each), relation, noise, "yes" if each.question in answered else "no")
        rows.append(
            (when, each.run, each.about, str(each.round_number), *cost, f"{spent_by(so_far, delta=delta).epsilon:.6g}")
        )
    heads = ("UTC", "run", "model", "round", EPSILON.title, "neighbors", "noise", "published", "in all")
    Table.of_texts(file.name, str(spent_by(booked, delta=delta)), heads, rows, words=len(heads)).show()


def _cost(booking: Booking) -> str:
    """Return the cost of a line: its epsilon, or the parameters of its mechanism."""
    if booking.mechanism is None:
        return f"{booking.epsilon:g}"
    part = booking.mechanism
    rate = f", rate {part.sampling_rate:g}" if part.sampling_rate < 1 else ""
    planned = f" of {booking.planned}" if booking.planned else ""
    return f"z {part.noise_multiplier:g} x {part.rounds}{planned}{rate}"


def _sound(file: LedgerFile, look: Callable[[], Found]) -> Found:
    from fedlearn.privacy.ledger_lines import LedgerDamaged

    try:
        return look()
    except LedgerDamaged as error:
        raise RunFailed(f"{file.path}: {error}: put a copy of the folder back; the client refuses until then") from None
