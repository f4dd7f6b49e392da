"""Weights of records (scikit-learn's `sample_weight`), with a declared largest weight.

A weight is a property of a record, as private as its cells, so the largest weight is *declared* (``max_weight``). A
record of weight w counts as w / max_weight, clipped to [0, 1]. The proofs of this package hold for records of any
weight up to 1: every sum, count and utility moves by at most that weight. Noise is scaled to a record of weight 1, so
in the unit of the weights it is max_weight times as wide. A needlessly large declaration costs accuracy: a fit without
weights (all of them 1) under a ``max_weight`` of 4 has four times the noise.

A bad weight raises no error, which would reveal its record. A weight that is negative or not a number counts as 0; one
above ``max_weight`` counts as ``max_weight``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.parameters import Rule, none_or
from fedlearn.private_trees.table_cells import numbers_of

Whole: TypeAlias = NDArray[np.int64] | None
"""(rows,) the weight of each record in UNITs; None: every record has weight 1."""

UNIT = 2**20
"""Fixed-point weight of the heaviest record."""

INSTEAD = "DPRegressionTree, DPBoostingRegressor and others do"
MAX_WEIGHT = none_or(Rule("a finite number above 0", lambda weight: 0 < weight < float("inf")))


def check_declared(sample_weight: Any, *, max_weight: float | None, owner: str) -> None:
    """Raise ValueError if weights are given, but no largest weight is declared.

    >>> check_declared([1, 2], max_weight=None, owner="DPRegressionTree")
    Traceback (most recent call last):
    ValueError: sample_weight: DPRegressionTree takes weights if max_weight declares the largest
    """
    if sample_weight is not None and max_weight is None:
        raise ValueError(f"sample_weight: {owner} takes weights if max_weight declares the largest")


def shares_of(sample_weight: Any, *, rows: int, max_weight: float | None) -> Whole:
    """Return (rows,) the relative weight of each record in UNITs, 0 .. UNIT; None if no largest weight is declared.

    Parameters
    ----------
    sample_weight
        None, or (rows,) of any content.
    rows
        Number of records.
    max_weight
        The declared largest weight, or None.

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
    """Return integers (records, columns) times their record's weight, rounded towards 0, in the same dtype.

    The L1 norm of a row is then at most its old norm times the weight.
    """
    if whole is None:
        return rows
    kept = np.abs(rows).astype(np.int64) * whole[:, None] // UNIT
    return np.asarray(np.sign(rows) * kept, rows.dtype)


def refuse_weights(given: Mapping[str, Any], *, owner: str) -> None:
    """Raise TypeError if `fit` of an estimator without weights is given more than X and y.

    >>> refuse_weights({"sample_weight": [1, 2]}, owner="DPRelayForest")
    Traceback (most recent call last):
    TypeError: sample_weight: DPRelayForest takes no weights; DPRegressionTree, DPBoostingRegressor and others do
    """
    if "sample_weight" in given:
        raise TypeError(f"sample_weight: {owner} takes no weights; {INSTEAD}")
    if given:
        raise TypeError(f"{owner}.fit() got an unexpected keyword argument {next(iter(given))!r}")
