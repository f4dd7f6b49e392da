"""Data sets from objects of torch and of the library `datasets`, and from the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.data.dataset import Dataset
from fedlearn.data.folder import check_download, one_line
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.arrays import from_arrays
from fedlearn.data.sources.declared import TEST_SHARE
from fedlearn.data.sources.images import Size, decoded
from fedlearn.words.errors import DataNotFound, UsageError

MOST_CHANNELS = 4


@one_line_errors
def from_torch(
    train: Any,
    test: Any = None,
    *,
    groups: ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    name: str = "torch",
    size: Size | None = None,
    **others: Any,
) -> Dataset:
    """Return a torch data set, a sequence of pairs of an input and a target, as a data set.

    Parameters
    ----------
    train, test
        Any object with a length and an index, as `torch.utils.data.Dataset`. Each entry is read once, now, so random
        transforms are frozen (a node augments anew with ``data.augment``). Inputs are Pillow images, or tensors and
        arrays of one shape; the channels of tensors (channels, height, width) are moved to the last axis, those of
        targets that are images, too.
    groups, groups_test, name
        As in `from_arrays`.
    size
        (height, width) to which Pillow images are scaled.
    others
        Other keywords of `from_arrays`.
    """
    X, y = _read(train, size)
    X_test, y_test = (None, None) if test is None else _read(test, size)
    names = _names(train) if y.dtype.kind in "iu" else None
    if y_test is not None and names is not None and y_test.dtype.kind in "iu":
        y_test = by_names(y_test, _names(test), names, name)
    classes = others.pop("classes", names)
    given = {"groups": groups, "groups_test": groups_test, "name": name, "classes": classes}
    return from_arrays(X, y, X_test, y_test, **given, **others)


@one_line_errors
def from_hf(
    data: Any,
    *,
    target: str = "label",
    inputs: str | Sequence[str] = "image",
    groups: str | None = None,
    split: str = "train",
    test_split: str = "test",
    config: str | None = None,
    name: str = "",
    size: Size | None = None,
    classes: int | tuple[str, ...] | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return a data set of the library `datasets`, or one of the Hugging Face Hub by its name, over the network.

    Parameters
    ----------
    data
        A `datasets.Dataset` or `DatasetDict`, or a name as ``"ylecun/mnist"``.
    target, inputs, groups
        Columns: the target; the one column that is learned from, or several of numbers; the group of each example.
    split, test_split
        Names of the parts for training and testing; without the part for testing, a fixed share is held out.
    config
        Name of one of several configurations of the data set.
    name
        Name in messages and results; unless given, the name on the Hub.
    size
        (height, width) to which pictures are scaled.
    classes, test_share
        As in `from_arrays`.

    Raises
    ------
    DataNotFound
        If the Hub does not have the data set, or there is no network.
    UsageError
        If the data set lacks a column or part.
    """
    called = name or (data if isinstance(data, str) else "datasets")
    parts = _loaded(data, config) if isinstance(data, str) else data
    if hasattr(parts, "column_names") and not isinstance(parts, dict):
        parts = {split: parts}
    if any(not hasattr(part, "__len__") for part in parts.values()):
        raise UsageError(f"data set {called!r}: it is a stream, which has no length: load it without streaming=True")
    if split not in parts:
        raise UsageError(f"data set {called!r}: it has no part {split!r}; it has {', '.join(parts)}")
    columns = [inputs] if isinstance(inputs, str) else list(inputs)
    train = _columns(parts[split], called, columns, target, groups, size)
    test = _columns(parts[test_split], called, columns, target, groups, size) if test_split in parts else (None,) * 3
    names = _names_of(parts[split], target)
    if test[1] is not None and names is not None and test[1].dtype.kind in "iu":
        test = (test[0], by_names(test[1], _names_of(parts[test_split], target), names, called), test[2])
    classes = classes or names
    owners = {"groups": train[2], "groups_test": test[2]}
    return from_arrays(
        train[0], train[1], test[0], test[1], **owners, name=called, classes=classes, test_share=test_share
    )


def _names(data: Any) -> tuple[str, ...] | None:
    """Return the names of the classes of a torch data set, as torchvision's have; None if it has none."""
    found = getattr(data, "classes", None)
    return tuple(map(str, found)) if isinstance(found, list | tuple) else None


def _names_of(part: Any, target: str) -> tuple[str, ...] | None:
    """Return the names of the classes in a column of the library `datasets`; None if they have no names."""
    found = getattr(part.features.get(target), "names", None)
    return None if found is None else tuple(map(str, found))


def by_names(codes: NDArray[Any], theirs: Sequence[str] | None, ours: Sequence[str] | None, name: str) -> NDArray[Any]:
    """Return classes with the numbers that their names have among ours; unchanged if one side has no names.

    >>> by_names(np.array([0, 1, 1]), ("dog", "owl"), ("cat", "dog", "owl"), "other").tolist()
    [1, 2, 2]

    Raises
    ------
    UsageError
        With the first class that is not one of ours.
    """
    if not theirs or not ours or tuple(theirs) == tuple(ours):
        return codes
    present = [theirs[code] for code in np.unique(codes) if 0 <= code < len(theirs)]
    if absent := next((each for each in present if each not in ours), None):
        raise UsageError(f"data set {name!r}: its class {absent!r} is none of {', '.join(map(repr, ours[:20]))}")
    place = {each: code for code, each in enumerate(ours)}
    table = np.array([place.get(each, -1) for each in theirs], np.int64)
    return np.where((codes >= 0) & (codes < len(table)), table[np.clip(codes, 0, len(table) - 1)], codes)


def _loaded(name: str, config: str | None) -> Any:
    try:
        check_download()
        from datasets import load_dataset

        return load_dataset(name, config)
    except Exception as error:  # raised by the library, its HTTP client or the data set's own files
        raise DataNotFound(f"{name!r} could not be loaded from the Hugging Face Hub: {one_line(error)}") from error


def _columns(part: Any, name: str, inputs: list[str], target: str, groups: str | None, size: Size | None) -> Any:
    wanted = [*inputs, target, *([groups] if groups else [])]
    if absent := [column for column in wanted if column not in part.column_names]:
        raise UsageError(f"data set {name!r}: it has no column {absent[0]!r}; it has {', '.join(part.column_names)}")
    columns = [_stacked(list(part[column]), f"{name!r}, column {column!r}", size) for column in inputs]
    X = columns[0] if len(columns) == 1 else np.column_stack(columns)
    return X, np.asarray(part[target]), None if groups is None else np.asarray(part[groups])


def _read(data: Any, size: Size | None) -> tuple[NDArray[Any], NDArray[Any]]:
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise UsageError(
            f"from_torch: {type(data).__name__} is a stream, which has no length and no index: give a list of what it "
            "yields, or a torch.utils.data.Dataset that has both"
        )
    pairs = [data[place] for place in range(len(data))]
    if not pairs or not isinstance(pairs[0], tuple | list) or len(pairs[0]) < 2:
        raise UsageError("from_torch: each entry must be a pair of an input and a target")
    X = _stacked([pair[0] for pair in pairs], "from_torch", size)
    y = np.array([np.asarray(pair[1]) for pair in pairs])
    if hasattr(pairs[0][0], "detach") and X.ndim == 4 and X.shape[1] <= MOST_CHANNELS:
        X = np.moveaxis(X, 1, -1)
    if hasattr(pairs[0][1], "detach") and X.ndim == y.ndim == 4:
        y = np.moveaxis(y, 1, -1)
    return X, y


def _stacked(values: list[Any], where: str, size: Size | None) -> NDArray[Any]:
    """Return inputs as one array."""
    from PIL import Image

    if isinstance(values[0], Image.Image):
        return decoded(values, [f"{where}, example {row}" for row in range(len(values))], size)
    arrays = [np.asarray(value) for value in values]
    for row, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise UsageError(f"{where}, example {row}: its shape is {array.shape}, that of the first {arrays[0].shape}")
    return np.stack(arrays)
