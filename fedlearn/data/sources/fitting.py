"""What a data set declares about its examples: which rows fit it, and which facts nobody has declared.

Where records are private, a row that does not fit is left out: an error, a class more or a wider vocabulary would tell
that it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import IGNORED
from fedlearn.data.dataset import TEST_ROWS, Dataset
from fedlearn.data.drawing import draws_by_itself

Classes = int | Sequence[str] | None


def fitting_inputs(inputs: NDArray[Any], vocabulary: int | None) -> NDArray[np.bool_]:
    """Return which rows hold finite numbers, bytes, or tokens of the vocabulary; shape (n,).

    >>> fitting_inputs(np.array([[1.0, np.nan], [1.0, 2.0]]), None), fitting_inputs(np.array([[3, 9], [0, 1]]), 4)
    (array([False,  True]), array([False,  True]))
    """
    if inputs.dtype.kind == "f":
        return _in_whole_rows(np.isfinite(inputs))
    return _in_whole_rows((inputs >= 0) & (inputs < (vocabulary or 2**31)))


def fitting_targets(targets: NDArray[Any], classes: Classes) -> NDArray[np.bool_]:
    """Return which rows hold finite numbers or declared classes; shape (n,).

    >>> fitting_targets(np.array([0, 2, 1]), 2), fitting_targets(np.array(["no", "never"]), ("no", "yes"))
    (array([ True, False,  True]), array([ True, False]))
    """
    if targets.dtype.kind == "f":
        return _in_whole_rows(np.isfinite(targets))
    if targets.dtype.kind == "U":
        names = targets if classes is None or isinstance(classes, int) else list(classes)
        return _in_whole_rows(np.isin(targets, names))
    stop = 2**31 if classes is None else classes if isinstance(classes, int) else len(classes)
    return _in_whole_rows(((targets >= 0) & (targets < stop)) | are_ignored(targets))


def are_ignored(targets: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of several classes of an example no loss counts.

    >>> are_ignored(np.array([[-100, 2]])), are_ignored(np.array([-100, 2]))
    (array([[ True, False]]), array([False, False]))
    """
    return np.asarray((targets == IGNORED) & (targets.ndim > 1))


def _are_counted(classes: Classes, found: Dataset) -> bool:
    """Return whether nobody has declared the classes: targets that are tokens are declared by the vocabulary."""
    if not classes:
        return found.num_classes != found.vocabulary
    return isinstance(classes, int) and bool(found.class_names)


def _in_whole_rows(fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(fits.reshape(len(fits), -1).all(axis=1))


def with_counted(
    found: Dataset, *, classes: Classes, vocabulary: int | None, has_test: bool, also: Sequence[str] = ()
) -> Dataset:
    """Return a data set that names what was counted on its examples, as nobody has declared it.

    Parameters
    ----------
    classes, vocabulary
        As a user gives them, or None.
    has_test
        Whether test rows were given, so that none were drawn.
    also
        Other facts that were counted.
    """
    is_counted = {
        "classes": found.num_classes > 0 and _are_counted(classes, found),
        "vocabulary": found.vocabulary > 0 and vocabulary is None,
        TEST_ROWS: not has_test and not draws_by_itself(),
    }
    return replace(found, counted=(*(name for name, so in is_counted.items() if so), *also))
