"""Arrays from what users give: lists, tensors, arrays, data frames of several libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError, quoted
from fedlearn.data.data_spec import Facts
from fedlearn.data.drawing import leaves_unfit_out
from fedlearn.data.naming import in_one_form
from fedlearn.data.sources.images import decoded

EXACT = 2**24  # whole numbers up to here are float32
LEAST_TOLD_APART = 0.5  # of different whole numbers
MOST_NAMES = 10_000  # columns whose names travel with a spec

Wrong = Callable[[str], UsageError]
"""Makes of a text the error that names the data set."""


def array_of(given: Any, name: str, wrong: Wrong) -> NDArray[Any]:
    """Return a value that a user has given as an array of numbers, truth values or texts; it is not empty.

    Parameters
    ----------
    given
        May be a tensor that is on a device or has a gradient; inputs (`name` begins with X) may be a data frame.
    name
        Name of the parameter, for errors.
    """
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    if (row := first_masked(given)) is not None:
        raise wrong(f"{name}: example {row} has a masked value, which is missing: fill it or leave it out")
    if are_pictures(given):
        return decoded(given, [f"{name}, example {row}" for row in range(len(given))], None)
    if hasattr(given, "toarray"):  # of scipy
        raise wrong(f"{name} is a sparse matrix: give {name}.toarray()")
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(0, object)
    if not array.ndim:
        raise wrong(f"{name} is one value, {quoted(given)}: give an array, one entry for each example")
    if array.dtype == object and columns_of(given) and name[0] == "X":
        array = _array_of_columns(given, name, wrong)
    if array.dtype == object and array.size:
        array = _filled(array, name, wrong)
        if all(isinstance(value, str) for value in array.flat):
            array = array.astype(str)
    if array.dtype.kind == "S":  # of h5py
        array = np.char.decode(array, errors="backslashreplace")
    if array.dtype.kind not in "biufU":
        allowed = "numbers or texts, every example of the same shape" if name[0] != "X" else "numbers of one shape"
        raise wrong(f"{name} holds {array.dtype if array.size else 'examples of several shapes'}: give {allowed}")
    if not array.size:
        raise wrong(f"{name} is empty: its shape is {array.shape}")
    return array


def _array_of_columns(frame: Any, name: str, wrong: Wrong) -> NDArray[Any]:
    """Return the values of a data frame whose columns are of several kinds: numbers and truth values."""
    parts = []
    for column in columns_of(frame):
        part = np.asarray(frame[column])
        if part.dtype == object:
            part = _filled(part, f"{name}, column {column!r}", wrong)
        if part.dtype == object and all(isinstance(value, Number) for value in part.flat):
            part = part.astype(np.float64)
        if part.dtype.kind not in "biuf":
            raise wrong(f"{name}, column {column!r} holds {part.dtype}: numbers alone are learned from")
        parts.append(part.astype(np.float64))
    return np.column_stack(parts)


def _filled(array: NDArray[Any], name: str, wrong: Wrong) -> NDArray[Any]:
    """Refuse missing values; where records are private, return them as values that fit no declaration."""
    missing = first_missing(array)
    if missing is None:
        return array
    if not leaves_unfit_out():
        raise wrong(f"{name}: example {missing} has no value: fill it or leave it out")
    filler = "" if any(isinstance(value, str) for value in array.flat) else np.nan
    values = [filler if value is None or value != value is not False else value for value in array.flat]
    return np.array(values, object if filler == "" else np.float64).reshape(array.shape)


def numbers_of(given: Any, name: str, wrong: Wrong) -> NDArray[Any]:
    """Return an array as `array_of` does, in which floats are float32, and finite unless unfit rows are left out."""
    array = array_of(given, name, wrong)
    if array.dtype.kind != "f":
        return array
    array = as_float32(array, name, wrong)
    if not leaves_unfit_out() and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        raise wrong(f"{name}: example {row} holds NaN or a number that float32 does not hold: fill it or leave it out")
    return array


def as_float32(array: NDArray[Any], name: str, wrong: Wrong) -> NDArray[np.float32]:
    """Return numbers as float32; refuse whole numbers, such as ids, most of which would become the same number.

    Where records are private nothing is refused, as an error would tell of them.
    """
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(array, np.float32)
    if leaves_unfit_out() or array.ndim > 2 or array.dtype.kind == "b":
        return found
    for place, (column, near) in enumerate(zip(np.atleast_2d(array.T), np.atleast_2d(found.T), strict=True)):
        if not column.size or not max(column.max(), -column.min()) > EXACT or not (column == np.floor(column)).all():
            continue
        different, told_apart = len(np.unique(column)), len(np.unique(near))
        if told_apart < different * LEAST_TOLD_APART:
            where = f"{name}, column {place}" if array.ndim > 1 else name
            raise wrong(
                f"{where} holds {different} different whole numbers, up to {column.max():.0f}, of which float32 tells "
                f"{told_apart} apart: leave ids out, and subtract a start from times"
            )
    return found


def columns_of(given: Any) -> tuple[Any, ...]:
    """Return the names of the columns of a data frame or table; an array has none.

    >>> columns_of(np.zeros(3))
    ()
    """
    names = getattr(given, "column_names", getattr(given, "columns", ()))  # of Arrow, of pandas and polars
    try:
        return tuple(names)
    except TypeError:  # another attribute of this name
        return ()


def named_columns(names: Sequence[object]) -> Facts:
    """Return the names of columns as a fact; none for numbers, or for more names than should travel with a spec."""
    are_names = names and len(names) <= MOST_NAMES and all(isinstance(name, str) for name in names)
    return {"feature_names": tuple(map(in_one_form, names))} if are_names else {}


def in_order(like: Any, frame: Any) -> Any:
    """Return a data frame with its columns in the order of another data frame; arrays are returned as they are.

    Raises
    ------
    ValueError
        With the first column that only one of the two has.
    """
    written, wanted = columns_of(frame), like if isinstance(like, tuple) else columns_of(like)
    names, found = (tuple(map(_form, each)) for each in (wanted, written))
    if not names or not found or names == found:
        return frame
    ours, theirs = set(names), set(found)
    if absent := [name for name in names if name not in theirs]:
        raise ValueError(f"has no column {absent[0]!r}, which is one")
    if more := [name for name in found if name not in ours]:
        raise ValueError(f"has a column {more[0]!r}, which is none")
    if len(set(found)) < len(found) or len(found) != len(names):
        raise ValueError("has two columns of one name in another order than those")
    chosen = [written[found.index(name)] for name in names]
    return frame.select(chosen) if hasattr(frame, "column_names") else frame[chosen]


def _form(name: Any) -> Any:
    """Return the name of a column in Unicode's composed form; a number is returned as it is."""
    return in_one_form(name) if isinstance(name, str) else name


def are_pictures(given: Any) -> bool:
    """Return whether a list holds images of Pillow, which NumPy would take for arrays of whatever their modes mean."""
    return isinstance(given, list | tuple) and bool(given) and hasattr(given[0], "getexif")


def by_text(y: NDArray[Any], classes: int | Sequence[str] | None) -> NDArray[Any]:
    """Return labels of a column: 1 is the class *named* "1" where names are declared and numbers are among them."""
    names = () if classes is None or isinstance(classes, int) else classes
    is_named = y.dtype.kind in "iu" and any(str(name).lstrip("-").isdecimal() for name in names)
    return y.astype(str) if is_named else y


def first_masked(given: Any) -> int | None:
    """Return the first row with a masked value, of a masked array of NumPy or a list of such; None if there is none."""
    rows = given if isinstance(given, list) else [given] if isinstance(given, np.ma.MaskedArray) else []
    for place, row in enumerate(rows):
        mask = np.ma.getmaskarray(row) if isinstance(row, np.ma.MaskedArray) else np.False_
        if mask.any():
            return place if rows is given else int(np.argwhere(np.atleast_1d(mask))[0][0])
    return None


def first_missing(values: NDArray[Any]) -> int | None:
    """Return the first row with a missing value (None, pandas' NA, NaN among texts); None if no value is missing."""
    wrong = np.array([value is None or value != value is not False for value in values.flat], bool)
    return int(np.flatnonzero(wrong)[0] // max(1, values.size // len(values))) if wrong.any() else None
