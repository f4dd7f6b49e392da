"""``fedlearn ledger``: what a node's data have paid for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.words.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from fedlearn.privacy.bookings import Entry
    from fedlearn.runs.ledgers import LedgerFile


class Action(StrEnum):
    """What to do with ledgers."""

    SHOW = "show"
    CHECK = "check"


def ledger(
    action: Annotated[Action, typer.Argument(help="List what was spent, or look whether all is what was written.")],
    folder: Annotated[Path, typer.Argument(help="The clients' --ledger.")],
) -> None:
    """Show what nodes' own data have paid for, run by run, or check that no line was changed or is gone.

    Exit code 1 if a ledger is not what was written: the first bad line is named. 2 if there is none.
    """
    from fedlearn.runs.ledgers import LedgerFile, names_in

    names = names_in(folder)
    if not names:
        raise UsageError(f"{folder}: there is no ledger: name the folder that clients have as --ledger")
    for name in names:
        file = LedgerFile(folder, name)
        _checked(file) if action is Action.CHECK else _show(file)


def _checked(file: LedgerFile) -> None:
    from fedlearn.privacy.bookings import bookings
    from fedlearn.privacy.ledger import Ledger

    found = Ledger(file)
    entries = _sound(file, found.check)
    booked = len(bookings(entries))
    print(f"{file.path}: sound; {booked} bookings, {len(entries) - booked} published, {found.spent()}")


def _show(file: LedgerFile) -> None:
    from fedlearn.privacy.bookings import Publication, bookings, total
    from fedlearn.privacy.ledger import Ledger
    from fedlearn.report.tables import Table
    from fedlearn.words.metric import EPSILON

    entries = _sound(file, Ledger(file).entries)
    answered = {entry.question for entry in entries if isinstance(entry, Publication)}
    rows, so_far = [], []
    booked = bookings(entries)
    for each in booked:
        so_far.append(each)
        when = datetime.fromtimestamp(each.time, UTC).strftime("%Y-%m-%d %H:%M") if each.time else "-"
        noise = "secure" if each.is_secure else "seeded"
        cost = (f"{each.epsilon:g}", each.relation.value, noise, "yes" if each.question in answered else "no")
        rows.append((when, each.run, each.about, str(each.round_number), *cost, f"{total(so_far).epsilon:g}"))
    heads = ("UTC", "run", "model", "round", EPSILON.title, "neighbors", "noise", "published", "in all")
    Table.of_texts(file.name, str(total(booked)), heads, rows, words=len(heads)).show()


def _sound(file: LedgerFile, look: Callable[[], list[Entry]]) -> list[Entry]:
    from fedlearn.privacy.ledger_lines import LedgerDamaged

    try:
        return look()
    except LedgerDamaged as error:
        raise RunFailed(f"{file.path}: {error}: put a copy of the folder back; the node refuses until then") from None
