"""The file of the sets of nodes with which a node has added up exact sums: NAME.sets, beside the ledger of the data.

It has a line for each set, of digests of the nodes' keys, and is kept as a ledger is: each line checks the one before.
"""

from __future__ import annotations

from collections.abc import Collection

from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, line_of, sound_lines

SUFFIX = ".sets"


def line_after(before: bytes, nodes: Collection[str]) -> bytes:
    """Return the line of a set, to be appended to the lines before."""
    return line_of({"nodes": sorted(nodes)}, check_of(before))


def sets_in(lines: bytes) -> list[set[str]]:
    """Return the sets that were remembered; raise `LedgerDamaged` with the first line that is not as it was written."""
    sets = []
    for number, plain, _ in sound_lines(lines):
        try:
            sets.append(set(plain["nodes"]))
        except (TypeError, KeyError):
            raise LedgerDamaged(number, "is no set of nodes") from None
    return sets
