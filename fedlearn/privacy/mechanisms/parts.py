"""Dividing records into disjoint parts, so that mechanisms on the parts compose in parallel.

Source: McSherry 2009, theorem 4, where the parts are given beforehand; here each record draws its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.mechanisms.interception import interceptable


@interceptable
def disjoint_parts(rows: int, *, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return (rows,) the part 0 .. count - 1 of each record, even, and independent of all other records.

    *Relation*: add or remove one record. *Loss*: none by itself; what is published of the parts costs the largest of
    their epsilons.

    *Proof.* Give every record its part before it is known whether it is there: as no draw depends on another, the parts
    of the others are distributed alike in both data sets. For each outcome of all draws the two differ by the record in
    its one part, so what is published of the parts loses at most that part's epsilon; the mean over the draws loses no
    more. (Parts of exactly equal size would not do: they shift by a row when a record comes.)

    It must not be known how the draws came out: whoever can repeat them sees a missing record by the shift of all that
    follow it. So `rng` is fresh and forgotten where noise is secure.

    Parameters
    ----------
    rows : int
        Number of records.
    count : int
        Number of parts, 1 or more.
    rng : numpy.random.Generator
        Where the draws come from.

    Examples
    --------
    >>> disjoint_parts(5, count=1, rng=np.random.default_rng()).tolist()
    [0, 0, 0, 0, 0]
    """
    return rng.integers(count, size=rows)
