"""Other data for a model that was trained already: classes and columns are matched by their names.

The number of a class, and the place of a column, have a meaning in their own data set alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.sources.as_arrays import columns_of, in_order
from fedlearn.data.sources.declared import TEST_SHARE, Declared
from fedlearn.data.sources.from_any import Brought
from fedlearn.data.sources.hidden import MASK, TOKENS, all_shown, has_mask, with_hidden
from fedlearn.data.sources.libraries import by_names

MOST_CHANNELS = 4
BYTES = 255


def examples_like(spec: DataSpec, given: Any) -> NDArray[Any]:
    """Return inputs as an array of the kind that `spec` describes.

    Grey images may lack the axis of their channel; bytes and tokens may be integers of any kind.

    Raises
    ------
    UsageError
        If the inputs are of another kind of numbers, range or shape, or a data frame lacks a column.
    """
    if spec.vocabulary and has_mask(given):
        tokens = with_hidden(given[TOKENS], given[MASK], "X", lambda text: _unlike(spec, text))
        given = tokens if spec.hides else all_shown(tokens)
    names = spec.table.features if spec.table is not None else spec.feature_names
    try:
        given = in_order(names, given)
    except ValueError as error:
        raise _unlike(spec, f"the data frame {error} of its columns") from None
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    inputs = np.asarray(given)
    if inputs.dtype == object and columns_of(given):
        inputs = np.column_stack([np.asarray(given[name]) for name in columns_of(given)])
    if spec.is_image and spec.shape[-1] == 1 and inputs.ndim == 3 and inputs.shape[1:] == spec.shape[:2]:
        inputs = inputs[..., np.newaxis]
    if len(spec.shape) == 1 == inputs.ndim and spec.shape == (1,):
        inputs = inputs[:, np.newaxis]
    if inputs.ndim < 1 or inputs.shape[1:] != spec.shape:
        raise _unlike(spec, f"these have shape {inputs.shape}{_first_axis(spec, inputs)}")
    return _numbers_like(spec, inputs)


def _numbers_like(spec: DataSpec, inputs: NDArray[Any]) -> NDArray[Any]:
    kind = inputs.dtype.kind
    if spec.dtype == "uint8":
        if kind not in "iu":
            remedy = "; numbers from 0 to 1 are (255 * x).round() as uint8" if kind == "f" else ""
            raise _unlike(spec, f"these are {inputs.dtype}{remedy}")
        most = BYTES
    elif spec.dtype == "int32":
        if kind not in "iu":
            raise _unlike(spec, f"these are {inputs.dtype}: give tokens, as integers")
        most = spec.vocabulary - 1
        if spec.hides:
            _check_most(spec, all_shown(inputs), most)
            return np.array(inputs, spec.dtype)
    elif kind not in "biuf":
        raise _unlike(spec, f"these are {inputs.dtype}: give numbers")
    else:
        return np.array(inputs, spec.dtype)
    _check_most(spec, inputs, most)
    return np.array(inputs, spec.dtype)


def _check_most(spec: DataSpec, inputs: NDArray[Any], most: int) -> None:
    if inputs.size and not (inputs.min() >= 0 and inputs.max() <= most):
        raise _unlike(spec, f"these hold {inputs.min()} to {inputs.max()}: they go from 0 to {most}")


def _first_axis(spec: DataSpec, inputs: NDArray[Any]) -> str:
    """Return advice for images whose channels come first; empty for other inputs."""
    turned = spec.is_image and inputs.ndim == 4 and (*inputs.shape[2:], inputs.shape[1]) == spec.shape
    return ": put the channels last, x.transpose(0, 2, 3, 1)" if turned else ""


def _unlike(spec: DataSpec, text: str) -> UsageError:
    shape = "".join(f", {side}" for side in spec.shape)
    return UsageError(f"the run's examples are {spec.dtype} of shape (n{shape}): {text}")


def held_out_like(spec: DataSpec, other: Dataset) -> Examples:
    """Return the test examples of another data set, with classes and columns numbered as in `spec`.

    Raises
    ------
    UsageError
        If the data set has a class that the run's data did not have, lacks a column, or is of another kind.
    """
    theirs, test = other.spec, other.test.at(slice(other.validation, None))
    if bool(spec.classes) != bool(theirs.classes):
        raise UsageError(f"data set {other.name!r}: it is {_word(theirs)}, and the run has learned {_word(spec)}")
    inputs, targets = test.inputs, test.targets
    if spec.table is not None and theirs.table is not None:
        inputs = _table_like(spec.table, theirs.table, inputs, other.name)
    elif spec.feature_names and theirs.feature_names:
        try:
            inputs = inputs[:, places_of(spec.feature_names, theirs.feature_names)]
        except ValueError as error:
            raise UsageError(f"data set {other.name!r}: {error}") from None
    if spec.target_names and theirs.target_names:
        try:
            targets = targets[:, places_of(spec.target_names, theirs.target_names)]
        except ValueError as error:
            raise UsageError(f"data set {other.name!r}: {error}") from None
    if spec.classes:
        targets = by_names(targets, theirs.class_names, spec.class_names, other.name)
        if not (spec.class_names and theirs.class_names) and theirs.classes > spec.classes:
            raise UsageError(f"data set {other.name!r}: it has {theirs.classes} classes, and the run's {spec.classes}")
    return Examples(examples_like(spec, inputs), targets, test.groups)


def scored_like(spec: DataSpec, given: Brought) -> Examples:
    """Return examples that a user has brought, with classes and columns numbered as in `spec`.

    Raises
    ------
    UsageError
        As of `held_out_like`; or if the run's data are a declared table, whose codes arrays do not say.
    """
    if given.whole is not None:
        return held_out_like(spec, given.whole)
    if spec.table is not None:
        raise UsageError(
            "the run's data are a declared table: evaluate by the .toml file of another one, or by Examples"
        )
    X, y = given.scored
    if not spec.classes and (numbers := np.asarray(y)).dtype.kind in "iu":
        y = numbers.astype(np.float32)  # the run says that targets are numbers
    classes = given.arrays.get("classes") or spec.class_names or spec.classes or None
    declared = Declared(
        given.name,
        classes=classes,
        vocabulary=spec.vocabulary or None,
        channels=given.arrays.get("channels"),
        hides=given.arrays.get("hides", False),
    )
    rows, _, facts = declared.checked((X, y, None), (X, y, None), test_share=TEST_SHARE)
    return held_out_like(spec, Dataset(given.name, rows, rows, fingerprint="", **facts))


def places_of(wanted: tuple[str, ...], found: tuple[str, ...]) -> list[int]:
    """Return the place of each wanted column; raise ValueError with the first column that is missing.

    >>> places_of(("a", "b"), ("b", "c", "a"))
    [2, 0]
    """
    places = {name: place for place, name in enumerate(found)}
    if absent := [name for name in wanted if name not in places]:
        raise ValueError(f"it has no column {absent[0]!r}, from which the run has learned")
    return [places[name] for name in wanted]


def _table_like(ours: TableSchema, theirs: TableSchema, rows: NDArray[Any], name: str) -> NDArray[Any]:
    """Return rows of a declared table with columns and codes of categories as our schema declares them."""
    try:
        places = places_of(ours.features, theirs.features)
    except ValueError as error:
        raise UsageError(f"data set {name!r}: {error}") from None
    moved = np.array(rows[:, places])
    for column, feature in enumerate(ours.features):
        if (feature in ours.categories) != (feature in theirs.categories):
            raise UsageError(f"data set {name!r}: its column {feature!r} is of another kind than the run's")
        if feature in ours.categories and ours.categories[feature] != theirs.categories[feature]:
            known = {category: code for code, category in enumerate(ours.categories[feature])}
            codes = np.array([known.get(each, np.nan) for each in theirs.categories[feature]], np.float64)
            present = np.isfinite(moved[:, column])
            moved[present, column] = codes[moved[present, column].astype(int)]
    return moved


def _word(spec: DataSpec) -> str:
    return "a classification" if spec.classes else "a regression"
