"""Declared categories and classes, and checks of the form of input, for estimators over categories and bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.parameters import PrivateFit
from fedlearn.private_trees.table_cells import is_missing, without_imaginary

Features = Mapping[str | int, Any] | Sequence[Any]


class DeclaredInput(PrivateFit):
    """Base of the estimators that take numbers, categories and missing values; checks the form of their input."""

    def _checked_pair(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return X and y after a check of their form alone: an error about a value would reveal a record."""
        if y is None:
            raise ValueError("y is None: this estimator requires y to be passed, but the target y is None")
        X = self._checked(X, reset=True)
        y = np.asarray(column_or_1d(without_imaginary(y), warn=True))
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} rows and y {len(y)} targets: the numbers must be equal")
        return X, y

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return X, a DataFrame or an array, after a check of its form; its values are not read."""
        if hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        fewest = 1 if self.bounds_from_data else 0
        X = without_imaginary(X)
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=fewest)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: missing values and strings are welcome; secure noise is never the same twice."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = self.noise == "secure"
        return tags


def check_classes(declared: Sequence[object] | None, *, bounds_from_data: bool) -> None:
    """Raise ValueError unless the classes are declared, or may be taken from the data."""
    if declared is None and not bounds_from_data:
        raise ValueError(
            "classes is not declared: name the labels that can occur, from public knowledge, or pass "
            "bounds_from_data=True, which is not private"
        )


def classes_of(declared: Sequence[object] | None, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted classes, and (rows,) the position of each label among them; -1 if it is not a class.

    Parameters
    ----------
    declared
        The classes; None: the distinct labels.
    y
        (rows,) labels.

    >>> classes_of(["yes", "no"], np.array(["no", "yes", "perhaps"], object))
    (array(['no', 'yes'], dtype='<U3'), array([ 0,  1, -1]))
    """
    if declared is None:
        check_classification_targets(y)
        return np.unique(y, return_inverse=True)
    classes = np.unique(np.asarray(list(declared)))
    labels = positions(y, tuple(classes.tolist())).astype(np.int64)
    labels[labels == MISSING] = -1
    return classes, labels


def positions(column: Any, categories: tuple[object, ...]) -> NDArray[np.uint8]:
    """Return (rows,) the position of each value among the categories; `MISSING` for any other value."""
    if hasattr(column, "cat") or hasattr(column, "factorize"):  # a pandas Series
        try:
            codes, distinct = column.factorize()  # missing values have the code -1
        except Exception:  # a cell that cannot be hashed or compared, such as a list: convert one by one
            return positions(np.array([*column, None], object)[:-1], categories)
        table = np.append(positions(np.asarray(distinct, object), categories), np.uint8(MISSING))
        return np.asarray(table[codes])
    if column.dtype != object:
        distinct, codes = np.unique(column, return_inverse=True)
        return np.asarray(positions(distinct.astype(object), categories)[codes])
    position = {category: code for code, category in enumerate(categories)}
    return np.array([_position(value, position) for value in column.tolist()], np.uint8)


def _position(value: object, position: Mapping[object, int]) -> int:
    try:
        return MISSING if is_missing(value) else position.get(value, MISSING)
    except Exception:  # a value that cannot be hashed was not declared
        return MISSING


def by_position(declared: Features | None, num_features: int, names: Sequence[str] | None, what: str) -> list[Any]:
    """Return the declaration of each feature, given by name, position or in order; None for a feature without one."""
    found: list[Any] = [None] * num_features
    if declared is None:
        return found
    if not isinstance(declared, Mapping):
        if len(declared) != num_features:
            raise ValueError(f"{what}: {len(declared)} entries for {num_features} features; declare one for each")
        return list(declared)
    known: list[Any] = list(range(num_features)) if names is None else list(names)
    for key, value in declared.items():
        if key in known:
            found[known.index(key)] = value
        elif isinstance(key, int | np.integer) and 0 <= key < num_features:
            found[int(key)] = value
        else:
            raise ValueError(f"{what}: {key!r} is not a feature; features are {known}")
    return found
