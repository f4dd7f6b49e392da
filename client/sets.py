"""The sets of nodes with which a node has added up exact sums: remembered, as several sums together tell more.

Two sums over sets that differ by one node are that node's own numbers, and so may be three that do not: {1, 2}, {1, 3}
and {2, 3} tell what each has added. A node signs no set with which the sets that it has signed before would tell what
a single node has added, over all runs and servers, whatever was asked. It knows of no sum in which it has no part: of
two sets that differ by this node alone, another node refuses the second one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from client.peers import lists_peers
from client.visit import Visit
from fedlearn.config import RunConfig
from fedlearn.models import model_spec
from fedlearn.runs.files import write_atomically
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.words.errors import Refused

SUFFIX = ".sets"  # beside the ledger of the data: a line for each set, of digests of the nodes' keys


def sums_exactly(config: RunConfig) -> bool:
    """Return whether nodes add their numbers as they are, without noise that anybody pays for."""
    row = model_spec(config.model.name)
    return row.sums and not row.is_private


def may_sum_exactly(visit: Visit) -> bool:
    """Return whether a real node can keep to its part: its peers are listed, and sets can be remembered."""
    return lists_peers(visit) and bool(visit.context.node_config.get("ledger"))


def remember_set(visit: Visit, keys: Collection[bytes]) -> None:
    """Remember the nodes of an exact sum of a real node, before it signs them.

    Raises
    ------
    Refused
        If the sums over this set and those before tell what a single node has added.
    """
    if not (visit.is_real and sums_exactly(visit.config)):
        return
    file = LedgerFile(
        Path(str(visit.context.node_config["ledger"])), str(visit.context.node_config.get("data-name", ""))
    )
    kept = file.path.with_suffix(SUFFIX)
    with file.alone():
        lines = kept.read_text().splitlines() if kept.exists() else []
        line = " ".join(sorted(sha256(key).hexdigest() for key in keys))
        if line in lines:
            return
        if tells_of_one([set(each.split()) for each in (*lines, line)]):
            raise Refused("tells-of-one", "with the sums before, this one would tell what a single node has added")
        write_atomically(kept, "".join(f"{each}\n" for each in (*lines, line)).encode())


def tells_of_one(sets: Sequence[Collection[str]]) -> bool:
    """Return whether sums over these sets tell what a single node has added: it alone lies in the span of the sets.

    >>> tells_of_one([{"a", "b", "c"}, {"a", "b"}]), tells_of_one([{"a", "b", "c", "d"}, {"a", "b"}])
    (True, False)
    >>> tells_of_one([{"a", "b"}, {"a", "c"}, {"b", "c"}])
    True
    """
    names = sorted(set().union(*sets))
    matrix = np.array([[name in each for name in names] for each in sets], np.float64)
    _, sizes, rows = np.linalg.svd(matrix, full_matrices=False)
    span = rows[sizes > 1e-9 * sizes[0]]
    return bool(((span**2).sum(axis=0) > 1 - 1e-9).any())
