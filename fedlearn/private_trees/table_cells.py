"""Cells of tables as numbers; a cell that is not a number counts as missing.

A bad cell raises no error: the error would reveal that some record holds the cell, and perhaps the cell itself.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


def names_of(estimator: Any) -> list[str] | None:
    """Return the names of a fitted estimator's features; None where its data had no names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def columns_of(X: Any) -> list[Any]:
    """Return the columns of a DataFrame or of a two-dimensional array."""
    if hasattr(X, "iloc"):
        return [X.iloc[:, feature] for feature in range(X.shape[1])]
    return list(np.asarray(X).T)


def table_of(X: Any) -> NDArray[np.float64]:
    """Return (rows, features) numbers of a DataFrame or two-dimensional array; NaN where a cell is not a number.

    >>> table_of(np.array([[1, "two"], [None, 10**400]], object)).tolist()
    [[1.0, nan], [nan, inf]]
    """
    if not hasattr(X, "iloc") and np.asarray(X).dtype.kind in "fiub":
        return np.asarray(X, np.float64)
    columns = [numbers_of(column, else_missing=True) for column in columns_of(X)]
    return np.column_stack(columns) if columns else np.empty((len(X), 0))


def numbers_of(column: Any, *, else_missing: bool = False) -> NDArray[np.float64]:
    """Return a column as numbers; a cell that is not a number raises an error or, by `else_missing`, is NaN."""
    try:
        column = without_imaginary(column)
        if hasattr(column, "to_numpy"):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if column.dtype != object:
            return np.asarray(column, np.float64)
        return np.array([np.nan if is_missing(value) else _float(value) for value in column.tolist()], np.float64)
    except Exception:  # an object in a cell may raise anything
        if not else_missing:
            raise
    return np.array([_number(value) for value in column.tolist()], np.float64)


def _number(value: Any) -> float:
    try:
        return np.nan if is_missing(value) else _float(value)
    except Exception as error:
        if isinstance(error, OverflowError) and isinstance(value, int | Fraction):  # beyond all floats
            return np.inf if value > 0 else -np.inf
        return np.nan


def _float(value: Any) -> float:
    if isinstance(value, np.complexfloating):  # numpy would drop a part of it, with a warning
        raise TypeError("a complex number: cells of a table must be real")
    return float(value)


def without_imaginary(values: Any) -> Any:
    """Return the values; complex ones become their real parts, or NaN if the imaginary part is not 0.

    A single complex number makes a whole array complex; its real neighbors must keep their values.
    """
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", "c") != "c":
        return values
    try:
        whole = np.asarray(values)
    except ValueError:  # rows of unequal lengths; a later check names the fault
        return values
    if whole.dtype.kind != "c":
        return values
    return np.where(whole.imag == 0, whole.real, np.nan)


def is_missing(value: object) -> bool:
    """Return whether a cell is None, NaN, pandas' NA, or an object that cannot be a value."""
    try:
        if value is None or type(value).__name__ == "NAType" or bool(value != value):
            return True
        return getattr(value, "ndim", 0) > 0  # an array in a cell; one of a single entry passes the comparison above
    except Exception:  # an object that cannot be compared, such as an array, is no declared value
        return True


def is_numeric(column: Any) -> bool:
    """Return whether every cell of a column is a number, or missing."""
    try:
        numbers_of(column)
    except Exception:
        return False
    return True
