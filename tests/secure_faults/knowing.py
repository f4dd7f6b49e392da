"""What an adversary knows who sees all that leaves honest nodes, and all that colluders hold: a linear system.

A masked report is x + b + the masks with neighbors, of which those are unknown that no revealed secret gives. A mask
seed that is unknown counts as an unknown number of its own (the stream of AES is taken for uniform). What a node adds
where it was asked a `DEAD` question is known: a server can send a state of which nothing is learned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

FIELD = 2**31 - 1
DEAD = b"dead"


@dataclass(frozen=True)
class Report:
    """A masked report that has left an honest node."""

    round_number: int
    node: int  # its id
    roster: bytes
    position: int
    masks: tuple[tuple[int, bytes], ...]  # positions with which it is masked, each with the seed of the mask
    asked: bytes  # the digest of what the node was asked


@dataclass
class View:
    """All that server and colluders have seen.

    Parameters
    ----------
    colluders
        Ids of the nodes that tell all they know.
    reports
        Of honest nodes, each once.
    shares
        (roster, dealer's position, "seed" or "key") -> positions whose share is known.
    thresholds, members
        Roster -> threshold; the ids at its positions.
    """

    colluders: frozenset[int]
    reports: dict[Report, None] = field(default_factory=dict)
    shares: dict[tuple[bytes, int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    thresholds: dict[bytes, int] = field(default_factory=dict)
    members: dict[bytes, tuple[int, ...]] = field(default_factory=dict)

    def knows(self, roster: bytes, dealer: int, kind: str) -> bool:
        """Return whether a secret of a node is known."""
        is_colluder = self.members[roster][dealer] in self.colluders
        return is_colluder or len(self.shares[roster, dealer, kind]) >= self.thresholds[roster]

    def sums_of(self, round_number: int) -> list[dict[int, int]]:
        """Return a basis of the combinations of honest inputs of a round that are determined: node id -> factor."""
        rows = [self._row(report) for report in self.reports if report.round_number == round_number]
        left = eliminated(rows, {name for row in rows for name in row if name[0] == "mask"})
        inputs = {name for row in left for name in row}
        return [{name[1]: factor for name, factor in row.items()} for row in reduced(left, sorted(inputs))]

    def _row(self, report: Report) -> dict[tuple[Hashable, ...], int]:
        row: dict[tuple[Hashable, ...], int] = {} if report.asked == DEAD else {("input", report.node): 1}
        roster, mine = report.roster, report.position
        if not self.knows(roster, mine, "seed"):
            row["mask", roster, mine] = 1
        if not self.knows(roster, mine, "key"):
            for other, seed in report.masks:
                if not self.knows(roster, other, "key"):
                    row["mask", seed] = 1 if mine < other else -1
        return row


def eliminated(rows: Iterable[Mapping[Hashable, int]], names: set[Hashable]) -> list[dict[Hashable, int]]:
    """Return combinations of rows that span all that are without some unknowns."""
    left = [dict(row) for row in rows]
    for name in names:
        pivot = next((row for row in left if row.get(name)), None)
        if pivot is not None:
            left = [_without(name, row, pivot) for row in left if row is not pivot]
    return [row for row in left if row]


def reduced(rows: Iterable[Mapping[Hashable, int]], names: Iterable[Hashable]) -> list[dict[Hashable, int]]:
    """Return a basis of what rows span, each with a 1 at an unknown that no other row has."""
    left, basis = [dict(row) for row in rows], []
    for name in names:
        pivot = next((row for row in left if row.get(name)), None)
        if pivot is not None:
            inverse = pow(pivot[name], -1, FIELD)
            pivot = {each: factor * inverse % FIELD for each, factor in pivot.items()}
            left = [new for row in left if row.get(name) != 0 and (new := _without(name, row, pivot))]
            basis = [_without(name, row, pivot) for row in basis] + [pivot]
    return basis


def _without(name: Hashable, row: dict[Hashable, int], pivot: dict[Hashable, int]) -> dict[Hashable, int]:
    factor = row.get(name, 0) * pow(pivot[name], -1, FIELD)
    if not factor:
        return row
    names = row.keys() | pivot.keys()
    found = {each: (row.get(each, 0) - factor * pivot.get(each, 0)) % FIELD for each in names}
    return {each: value for each, value in found.items() if value}
