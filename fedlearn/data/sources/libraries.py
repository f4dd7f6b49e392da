"""Data sets from objects of torch and of the library `datasets`, and from the Hugging Face Hub."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.data_folder import check_download, one_line
from fedlearn.data.dataset import Dataset
from fedlearn.data.naming import in_one_form, spelled
from fedlearn.data.reading import UNPACKED, one_line_errors
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.as_arrays import by_text, first_masked
from fedlearn.data.sources.channels import Channels, channels_of
from fedlearn.data.sources.declared import TEST_SHARE
from fedlearn.data.sources.hidden import MASK, TOKENS, with_hidden, with_next
from fedlearn.data.sources.images import Size, decoded

TENSORS = ("torch", "numpy", "jax", "tensorflow")  # formats of the library `datasets`
MOST_OF_A_STREAM = 1_000_000  # pairs that are read of a stream without a length


@one_line_errors
def from_torch(
    train: Any,
    test: Any = None,
    *,
    length: int | None = None,
    groups: ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    name: str = "torch",
    size: Size | None = None,
    channels: Channels | None = None,
    **others: Any,
) -> Dataset:
    """Return a torch data set, or any other pairs of an input and a target, as a data set.

    Parameters
    ----------
    train, test
        Any object with a length and an index, as `torch.utils.data.Dataset`; or one that yields pairs, as
        `torch.utils.data.IterableDataset`. Each entry is read once, now, so random transforms are frozen (a node
        augments anew with ``data.augment``). Inputs are Pillow images, or tensors and arrays of one shape; tensors
        are (channels, height, width), stored with their channels last and given to modules as they were.
    length
        How many pairs are taken of `train`; needed where it neither ends nor has a length.
    groups, groups_test, name
        As in `from_arrays`.
    size
        (height, width) to which Pillow images are scaled.
    channels
        "first" or "last", where the channels of inputs stand; unless given, first in tensors, last in arrays.
    others
        Other keywords of `from_arrays`.
    """
    given = torch_arrays(train, test, name=name, size=size, length=length, channels=channels)
    return from_arrays(**{**given, "groups": groups, "groups_test": groups_test, "name": name, **others})


def torch_arrays(
    train: Any,
    test: Any = None,
    *,
    name: str,
    size: Size | None = None,
    length: int | None = None,
    channels: Channels | None = None,
) -> dict[str, Any]:
    """Return X, y, X_test, y_test and classes, keywords of `from_arrays`, of what `from_torch` takes."""
    X, y, are_tensors, hides = _read(train, size, length)
    X_test, y_test = (None, None) if test is None else _read(test, size, None)[:2]
    names = _names(train) if y.dtype.kind in "iu" else None
    if y_test is not None and names is not None and y_test.dtype.kind in "iu":
        y_test = by_names(y_test, _names(test), names, name)
    where = _channels(X, channels, "from_torch", are_tensors)
    return {"X": X, "y": y, "X_test": X_test, "y_test": y_test, "classes": names, "channels": where, "hides": hides}


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
    channels: Channels | None = None,
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
    channels
        As in `from_torch`, for tensors that a transform returns.
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
    check_lengths(parts, called)
    if split not in parts:
        raise UsageError(f"data set {called!r}: it has no part {split!r}; it has {', '.join(parts)}")
    columns = [inputs] if isinstance(inputs, str) else list(inputs)
    found = hf_arrays(
        parts[split], parts.get(test_split), name=called, inputs=columns, target=target, groups=groups, size=size,
        channels=channels,
    )  # fmt: skip
    if found["classes"] is None:  # a plain column, not numbered by a ClassLabel
        found |= {y: by_text(found[y], classes) for y in ("y", "y_test") if found[y] is not None}
    found, said = with_next(found) if columns == [TOKENS] else (found, ())
    made = from_arrays(**{**found, "classes": classes or found["classes"]}, name=called, test_share=test_share)
    return replace(made, notice="; ".join(filter(None, (made.notice, *said))))


def hf_arrays(
    train: Any,
    test: Any = None,
    *,
    name: str,
    inputs: list[str],
    target: str,
    groups: str | None = None,
    size: Size | None = None,
    channels: Channels | None = None,
) -> dict[str, Any]:
    """Return X, y, groups, those of the test part, and classes, keywords of `from_arrays`, of parts of `datasets`."""
    X, y, owners, are_tensors = _columns(train, name, inputs, target, groups, size)
    X_test, y_test, owners_test, _ = (None,) * 4 if test is None else _columns(test, name, inputs, target, groups, size)
    names = _names_of(train, target)
    if y_test is not None and names is not None and y_test.dtype.kind in "iu":
        y_test = by_names(y_test, _names_of(test, target), names, name)
    return {
        "X": X, "y": y, "X_test": X_test, "y_test": y_test, "groups": owners, "groups_test": owners_test,
        "classes": names, "channels": _channels(X, channels, "from_hf", are_tensors),
        "hides": inputs == [TOKENS] and MASK in train.column_names,
    }  # fmt: skip


def check_lengths(parts: Mapping[str, Any], name: str) -> None:
    """Refuse parts of the library `datasets` that are streams."""
    if any(not hasattr(part, "__len__") for part in parts.values()):
        raise UsageError(f"data set {name!r}: it is a stream, which has no length: load it without streaming=True")


def _names(data: Any) -> tuple[str, ...] | None:
    """Return the names of the classes of a torch data set, as torchvision's have, also of a subset; None if none."""
    while hasattr(data, "indices") and hasattr(data, "dataset"):  # torch.utils.data.Subset
        data = data.dataset
    found = getattr(data, "classes", None)
    return tuple(map(in_one_form, found)) if isinstance(found, list | tuple) else None


def _names_of(part: Any, target: str) -> tuple[str, ...] | None:
    """Return the names of the classes in a column of the library `datasets`; None if they have no names."""
    found = getattr(part.features.get(spelled(target, part.features)), "names", None)
    return None if found is None else tuple(map(in_one_form, found))


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


def _columns(
    part: Any,
    name: str,
    inputs: list[str],
    target: str,
    groups: str | None,
    size: Size | None,
) -> Any:
    known = part.column_names
    inputs, target = [spelled(column, known) for column in inputs], spelled(target, known)
    groups = groups and spelled(groups, known)
    wanted = [*inputs, target, *([groups] if groups else [])]
    if absent := [column for column in wanted if column not in known]:
        raise UsageError(f"data set {name!r}: it has no column {absent[0]!r}; it has {', '.join(known)}")
    if isinstance(getattr(part, "format", None), dict) and part.format["type"] in TENSORS:
        part = part.with_format(None)  # the same values, and pictures as such
    columns, are_tensors = zip(*(input_column(part, column, name, size) for column in inputs), strict=True)
    is_table = {column.ndim for column in columns} == {1}
    X = _table(inputs, columns) if is_table else np.column_stack(columns) if len(columns) > 1 else columns[0]
    if inputs == [TOKENS] and MASK in known:
        X = with_hidden(X, list(part[MASK]), TOKENS, lambda text: UsageError(f"data set {name!r}: {text}"))
    return X, np.asarray(part[target]), None if groups is None else np.asarray(part[groups]), any(are_tensors)


def _table(names: Sequence[str], columns: Sequence[NDArray[Any]]) -> Any:
    """Return columns of numbers as a frame, as those of any other table."""
    import pandas as pd

    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def input_column(part: Any, column: str, name: str, size: Size | None = None) -> tuple[NDArray[Any], bool]:
    """Return a column of the library `datasets` as one array, and whether it holds tensors."""
    try:
        values = list(part[column])
    except KeyError as error:
        known = f"give (data.map(...), 'COLUMN') in place of with_transform, or leave column {column!r} in place"
        raise UsageError(f"data set {name!r}: its transform takes column {column!r} away: {known}") from error
    X = _stacked(values, f"{name!r}, column {column!r}", size)
    return X.astype(_kind(part, column, X.dtype), copy=False), hasattr(values[0], "detach")


def _kind(part: Any, column: str, found: Any) -> Any:
    """Return the kind of numbers that a column is declared to hold; of Python's numbers NumPy makes 64 bits."""
    feature: Any = part.features.get(column) if found == np.int64 else None
    while hasattr(feature, "feature"):
        feature = feature.feature
    declared = str(getattr(feature, "dtype", ""))
    return declared if "int" in declared else found


def _read(data: Any, size: Size | None, length: int | None) -> tuple[NDArray[Any], NDArray[Any], bool, bool]:
    """Return the inputs of pairs, their targets, whether the inputs are tensors, and whether some may be hidden."""
    pairs = _pairs(data, length)
    if not pairs or not isinstance(pairs[0], tuple | list) or len(pairs[0]) < 2:
        raise UsageError(f"from_torch: each entry must be a pair of an input and a target{_no_pair(pairs)}")
    given = [pair[0] for pair in pairs]
    X = _tokens(given) if _are_masked(given[0]) else _stacked(given, "from_torch", size)
    y = np.array([np.asarray(pair[1]) for pair in pairs])
    return X, y, hasattr(pairs[0][0], "detach"), _are_masked(given[0])


def _are_masked(value: Any) -> bool:
    """Return whether an input is the tokens of a text and their mask, of one length."""
    if not (_has_parts(value) and len(value) == 2):
        return False
    tokens, mask = (np.asarray(part) for part in value)
    is_mask = tokens.shape == mask.shape and mask.dtype.kind in "iub" and bool(mask.max(initial=0) <= 1)
    return is_mask and tokens.ndim == 1 and tokens.dtype.kind in "iu"


def _tokens(given: list[Any]) -> NDArray[Any]:
    tokens, mask = (_stacked([each[place] for each in given], "from_torch", None) for place in (0, 1))
    return with_hidden(tokens, mask, "X", lambda text: UsageError(f"from_torch: {text}"))


def _channels(X: Any, channels: Channels | None, how: str, are_tensors: bool) -> Channels | None:
    """Return where channels stand if it is said or the inputs are tensors; None leaves it to the rules of arrays."""
    if channels is not None:
        return channels if np.ndim(X) == 4 else None

    def wrong(text: str) -> UsageError:
        return UsageError(f"{how}: {text}")

    return channels_of(X, "X", wrong, are_tensors=True) if are_tensors else None


def _pairs(data: Any, length: int | None) -> list[Any]:
    """Return the entries of a data set: all of them, or the first `length`."""
    if length is not None and length < 1:
        raise UsageError(f"from_torch: length = {length}: it must be 1 or more")
    has_length = hasattr(data, "__len__")
    if not is_stream(data) and (has_length or length is not None):
        if has_length and length is not None and length > len(data):
            raise UsageError(f"from_torch: length = {length}: there are {len(data)} pairs")
        return [data[place] for place in range(len(data) if length is None else length)]
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise UsageError(f"from_torch: {type(data).__name__} has no pairs: give a torch.utils.data.Dataset or pairs")
    most = length if length is not None else len(data) if has_length else None
    pairs, taken = [], 0
    for pair in islice(iter(data), most):
        pairs.append(pair)
        taken += sum(getattr(part, "nbytes", 0) for part in pair) if isinstance(pair, tuple | list) else 0
        if most is None and (taken > UNPACKED or len(pairs) > MOST_OF_A_STREAM):
            raise UsageError(
                f"from_torch: {type(data).__name__} has no length and has not ended after {len(pairs):,} pairs, "
                f"{taken / 1e9:.2g} GB: say how many to take, from_torch(data, length=...)"
            )
    if most is not None and len(pairs) < most:
        raise UsageError(f"from_torch: {type(data).__name__} has yielded {len(pairs)} pairs of {most}")
    return pairs


def is_stream(data: Any) -> bool:
    """Return whether a data set yields its entries, and has no index; torch's own streams raise an error for one."""
    torch = sys.modules.get("torch")
    return not hasattr(data, "__getitem__") or (
        torch is not None and isinstance(data, torch.utils.data.IterableDataset)
    )


def _no_pair(pairs: list[Any]) -> str:
    if not pairs:
        return ": there are none"
    if isinstance(pairs[0], Mapping):
        return f": these have names, {', '.join(map(str, pairs[0]))}: let the data set return (entry[...], entry[...])"
    return f", and is of type {type(pairs[0]).__name__}"


def _stacked(values: list[Any], where: str, size: Size | None) -> NDArray[Any]:
    """Return inputs as one array."""
    from PIL import Image

    if isinstance(values[0], Image.Image):
        return decoded(values, [f"{where}, example {row}" for row in range(len(values))], size)
    if _has_parts(values[0]):
        raise UsageError(
            f"{where}: each input has {len(values[0])} parts, and a module gets one tensor: let the data set join "
            "them, or return one of them"
        )
    if (row := first_masked(values)) is not None:
        raise UsageError(f"{where}, example {row}: it has a masked value, which is missing: fill it or leave it out")
    arrays = [np.asarray(value) for value in values]
    for row, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise UsageError(f"{where}, example {row}: its shape is {array.shape}, that of the first {arrays[0].shape}")
    return np.stack(arrays)


def _has_parts(value: Any) -> bool:
    """Return whether an input is several arrays, such as the tokens of a text and their mask."""
    return isinstance(value, tuple | list) and len(value) > 1 and all(getattr(part, "ndim", 0) for part in value)
