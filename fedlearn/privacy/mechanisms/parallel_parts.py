"""Dividing records into disjoint parts, so that mechanisms on the parts compose in parallel.

Source: McSherry 2009, theorem 4, where the parts are given beforehand; here each record draws its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.mechanisms.interception import interceptable


@interceptable
def disjoint_parts(rows: int, *, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the part of each record, (rows,): uniform in 0 .. count - 1, and independent of all other records.

    *Relation*: add or remove one record. *Loss*: none by itself; results on the parts cost the largest of their
    epsilons.

    *Proof.* Draw the part of a record whether or not the record exists: draws are independent, so the parts of all
    other records have the same distribution in both data sets. For each outcome of all draws the two data sets differ
    by one record in one part, so the results lose at most that part's epsilon; the mean over the draws loses no more.
    (Parts of exactly equal size do not work: one more record shifts them by a row.)

    The draws must stay secret: repeated draws show a missing record by the shift of all records behind it. So where
    noise is secure, `rng` must be fresh and not be kept.

    Parameters
    ----------
    rows : int
        Number of records.
    count : int
        Number of parts, 1 or more.
    rng : numpy.random.Generator
        Source of the draws.

    Examples
    --------
    >>> disjoint_parts(5, count=1, rng=np.random.default_rng()).tolist()
    [0, 0, 0, 0, 0]
    """
    return rng.integers(count, size=rows)
