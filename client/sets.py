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
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.runs.node_sets import SUFFIX, line_after, sets_in
from fedlearn.words.errors import Refused


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
    LedgerDamaged
        If sets that were remembered are gone or changed.
    """
    if not (visit.is_real and sums_exactly(visit.config)):
        return
    file = _file_of(visit)
    with file.alone():
        before = file.read()
        sets, new = sets_in(before), {sha256(key).hexdigest() for key in keys}
        if new in sets:
            return
        if tells_of_one([*sets, new]):
            raise Refused("tells-of-one", "with the sums before, this one would tell what a single node has added")
        file.append(line_after(before, new))


def check_sets(visit: Visit) -> None:
    """Raise `LedgerDamaged` on a real node that would sum exactly and has lost sets that it had remembered."""
    if visit.is_real and sums_exactly(visit.config):
        sets_in(_file_of(visit).read())


def _file_of(visit: Visit) -> LedgerFile:
    config = visit.context.node_config
    return LedgerFile(Path(str(config["ledger"])), str(config.get("data-name", "")), suffix=SUFFIX)


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
