"""The file of the sets of nodes with which a node has added up exact sums: NAME.sets, beside the ledger of the data.

It has a line for each set, of digests of the nodes' keys, and is kept as a ledger is: each line checks the one before.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, line_of

SUFFIX = ".sets"


def line_after(before: bytes, nodes: Collection[str]) -> bytes:
    """Return the line of a set, to be appended to the lines before."""
    return line_of({"nodes": sorted(nodes)}, check_of(before))


def sets_in(lines: bytes) -> list[set[str]]:
    """Return the sets that were remembered; raise `LedgerDamaged` with the first line that is not as it was written."""
    sets, check = [], ""
    for number, line in enumerate(lines.splitlines(keepends=True), start=1):
        try:
            plain = json.loads(line.rpartition(b" ")[0])
            sets.append(set(plain["nodes"]))
        except (ValueError, TypeError, KeyError):
            raise LedgerDamaged(number, "is no set of nodes") from None
        if line_of(plain, check) != line:
            raise LedgerDamaged(number, "was changed, or a line before it")
        check = check_of(line)
    return sets
