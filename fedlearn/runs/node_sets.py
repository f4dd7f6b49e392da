"""The sets of nodes with which a node has added up its answers: what it remembers over all runs and servers.

For exact sums of rows there is a file NAME.sets beside the ledger of the data. It has a line for each set, of digests
of the nodes' keys, and is kept as a ledger is: each line checks the one before. For training there is a database beside
the memory of the node, as each round of each run is a question of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, line_of, sound_lines
from fedlearn.runs.ledgers import LedgerFile

SUFFIX = ".sets"


class SignedSet(NamedTuple):
    """A set of nodes that a node has signed, and the round of which run it was signed in."""

    of_round: str
    nodes: frozenset[str]


class Sets(Protocol):
    """What a node remembers of one question."""

    def signed(self) -> list[SignedSet]:
        """Return the sets that the node has signed."""
        ...

    def add(self, signed: SignedSet) -> None:
        """Remember a set before it is signed."""
        ...

    def settle(self, signed: SignedSet) -> None:
        """Remove the other sets of this round: after this set is unmasked, the protocol unmasks no other one."""
        ...


class SetsOfRows:
    """The sets of exact sums over the rows of one data set; called within `LedgerFile.alone`."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def signed(self) -> list[SignedSet]:
        """Return the sets; raise `LedgerDamaged` if some that were remembered are gone or changed."""
        return sets_in(self._file.read())

    def add(self, signed: SignedSet) -> None:
        """Remember a set before it is signed."""
        self._file.append(line_after(self._file.read(), signed.nodes, of_round=signed.of_round))

    def settle(self, signed: SignedSet) -> None:
        """Remove the other sets of this round."""
        self._file.append(line_after(self._file.read(), signed.nodes, of_round=signed.of_round, is_unmasked=True))


class SetsOfQuestion:
    """The sets of one question of training.

    Parameters
    ----------
    path
        The file of the database; made if it does not exist.
    question
        The digest of the question.
    """

    def __init__(self, path: Path, question: bytes) -> None:
        self._path = path
        self._question = question

    def signed(self) -> list[SignedSet]:
        """Return the sets, in a time that does not depend on the number of questions."""
        rows = self._done("SELECT of_round, nodes FROM signed WHERE question = ?", self._question)
        return [SignedSet(of_round, frozenset(nodes.split())) for of_round, nodes in rows]

    def add(self, signed: SignedSet) -> None:
        """Remember a set before it is signed."""
        nodes = " ".join(sorted(signed.nodes))
        self._done("INSERT INTO signed VALUES (?, ?, ?)", self._question, signed.of_round, nodes)

    def settle(self, signed: SignedSet) -> None:
        """Remove the other sets of this round."""
        nodes = " ".join(sorted(signed.nodes))
        where = "question = ? AND of_round = ? AND nodes != ?"
        self._done(f"DELETE FROM signed WHERE {where}", self._question, signed.of_round, nodes)

    def _done(self, command: str, *values: object) -> list[tuple[str, str]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=60)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS signed (question BLOB, of_round TEXT, nodes TEXT)")
            database.execute("CREATE INDEX IF NOT EXISTS by_question ON signed (question)")
            return database.execute(command, values).fetchall()


def named(keys: Iterable[bytes]) -> frozenset[str]:
    """Return the names by which nodes are remembered: the SHA-256 of their keys."""
    return frozenset(sha256(key).hexdigest() for key in keys)


def line_after(before: bytes, nodes: Collection[str], *, of_round: str = "", is_unmasked: bool = False) -> bytes:
    """Return the line of a set, to be appended to the lines before."""
    return line_of({"nodes": sorted(nodes), "round": of_round, "unmasked": is_unmasked}, check_of(before))


def sets_in(lines: bytes) -> list[SignedSet]:
    """Return the sets that were remembered; raise `LedgerDamaged` with the first line that is not as it was written."""
    sets: list[SignedSet] = []
    for number, plain, _ in sound_lines(lines):
        try:
            new = SignedSet(str(plain.get("round", "")), frozenset(plain["nodes"]))
        except (TypeError, KeyError, AttributeError):
            raise LedgerDamaged(number, "is no set of nodes") from None
        others = [each for each in sets if each.of_round != new.of_round] if plain.get("unmasked") else sets
        sets = [*(each for each in others if each != new), new]
    return sets
