"""Weights of records, `sample_weight` as scikit-learn calls them: declared up to a largest one.

A weight is a property of a record, as private as its cells, so how large it may be is *declared* (``max_weight``). A
record counts as w / max_weight, clipped to [0, 1]. What holds for records in pieces holds for it: all proofs here are
of records of a weight of at most 1, by which every sum, count and utility moves at most. The noise is that of a record
of weight 1, so in the unit of the weights it is max_weight times as wide: who declares a needlessly large weight pays
for it, and a fit without weights (all of them 1) under a declared ``max_weight`` of 4 has four times the noise.

A weight is never an error, which would tell of its record: what is no number, or below 0, counts as 0, what is beyond
``max_weight`` as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.columns import numbers_of
from fedlearn.private_trees.parameters import Rule, none_or

Whole: TypeAlias = NDArray[np.int64] | None
"""(rows,) the weight of each record in UNITs; None: each counts for one."""

UNIT = 2**20
"""Fixed-point weight of the heaviest record."""

INSTEAD = "DPRegressionTree, DPBoostingRegressor and others do"
MAX_WEIGHT = none_or(Rule("a finite number above 0", lambda weight: 0 < weight < float("inf")))


def check_declared(sample_weight: Any, *, max_weight: float | None, owner: str) -> None:
    """Raise ValueError if weights are given to an estimator for which no largest one is declared.

    >>> check_declared([1, 2], max_weight=None, owner="DPRegressionTree")
    Traceback (most recent call last):
    ValueError: sample_weight: DPRegressionTree takes weights if max_weight declares the largest
    """
    if sample_weight is not None and max_weight is None:
        raise ValueError(f"sample_weight: {owner} takes weights if max_weight declares the largest")


def shares_of(sample_weight: Any, *, rows: int, max_weight: float | None) -> Whole:
    """Return (rows,) what each record counts for, in UNITs, 0 .. UNIT; None: each counts for one, none is declared.

    Parameters
    ----------
    sample_weight
        None, or (rows,); whatever stands in it.
    rows
        Number of records.
    max_weight
        As declared.

    >>> shares_of(np.array([4, 1, -1, None]), rows=4, max_weight=4.0) / UNIT
    array([1.  , 0.25, 0.  , 0.  ])
    """
    if max_weight is None:
        return None
    if sample_weight is None:
        return np.full(rows, round(UNIT * min(1 / max_weight, 1.0)))
    given = np.asarray(sample_weight)
    if given.shape != (rows,):
        raise ValueError(f"sample_weight: shape {given.shape} for {rows} rows; give one weight for each")
    weight = np.clip(np.nan_to_num(numbers_of(given, else_missing=True), nan=0.0, posinf=max_weight), 0, max_weight)
    return np.rint(UNIT * (weight / max_weight)).astype(np.int64)


def weighed(rows: NDArray[Any], whole: Whole) -> NDArray[Any]:
    """Return whole numbers (records, columns), each times its record's weight, rounded towards 0; same type.

    The L1 norm of a row is then at most the weight times what it was.
    """
    if whole is None:
        return rows
    kept = np.abs(rows).astype(np.int64) * whole[:, None] // UNIT
    return np.asarray(np.sign(rows) * kept, rows.dtype)


def refuse_weights(given: Mapping[str, Any], *, owner: str) -> None:
    """Raise TypeError if anything is given to an estimator whose `fit` takes X and y alone.

    >>> refuse_weights({"sample_weight": [1, 2]}, owner="DPRelayForest")
    Traceback (most recent call last):
    TypeError: sample_weight: DPRelayForest takes no weights; DPRegressionTree, DPBoostingRegressor and others do
    """
    if "sample_weight" in given:
        raise TypeError(f"sample_weight: {owner} takes no weights; {INSTEAD}")
    if given:
        raise TypeError(f"{owner}.fit() got an unexpected keyword argument {next(iter(given))!r}")
