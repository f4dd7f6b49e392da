"""Lines of a ledger: how entries are written, each with a running checksum, and read back.

Each line is JSON and ends in the SHA-256 of itself and all lines before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fedlearn.core.errors import FedlearnError
from fedlearn.privacy.bookings import KINDS, Booking, Entry
from fedlearn.privacy.budget import PrivacyUnit

FORMAT = 1
FIRST = 2  # line of the first entry; line 1 names the format and the data


class LedgerDamaged(FedlearnError):
    """A ledger's lines are not as they were written, so no budget is spent on it.

    Parameters
    ----------
    line : int
        First line that is wrong, from 1.
    why : str
        What is wrong with the line.
    """

    def __init__(self, line: int, why: str) -> None:
        self.line = line
        super().__init__(f"line {line} {why}")


def read(data: bytes, *, name: str) -> Iterator[tuple[Entry, str]]:
    """Yield the entries of a ledger's lines, each with its running checksum.

    Raises
    ------
    LedgerDamaged
        With the first line that is not as it was written; line 1, if the ledger is of other data.
    """
    for number, plain, check in sound_lines(data):
        if number == 1:
            if plain != {"ledger": FORMAT, "data": name}:
                raise LedgerDamaged(number, f"says that it is no ledger of {name!r}")
            continue
        yield _entry(plain, number), check


def sound_lines(data: bytes) -> Iterator[tuple[int, Any, str]]:
    """Yield the number of each line, from 1, its values, and its running checksum.

    Raises
    ------
    LedgerDamaged
        With the first line that is not as it was written.
    """
    check = ""
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            raise LedgerDamaged(number, "is cut short")
        body, _, said = line[:-1].rpartition(b" ")
        check = _chained(check, body)
        if said.decode("ascii", "replace") != check:
            raise LedgerDamaged(number, "was changed, or lines before it are gone")
        yield number, _plain(body, number), check


def plain_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as values that JSON can hold; pure epsilon of records as it was before there was another kind."""
    plain = {"kind": entry.kind, **asdict(entry)}
    if isinstance(entry, Booking) and entry.mechanism is None:
        for name in ("mechanism", "planned", *(["unit"] if entry.unit is PrivacyUnit.RECORD else [])):
            del plain[name]
    elif isinstance(entry, Booking) and not plain["mechanism"]["is_skellam"]:
        del plain["mechanism"]["is_skellam"]
    return plain


def lines_in(data: bytes) -> int:
    """Return the number of lines."""
    return data.count(b"\n")


def line_of(plain: dict[str, Any], check: str) -> bytes:
    """Return an entry as a line that follows a line with this running checksum."""
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
