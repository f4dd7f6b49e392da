"""What forms of data are known by: their attributes, so that no library is imported for them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from fedlearn.core.errors import quoted
from fedlearn.data.data_spec import Examples
from fedlearn.data.sources.as_arrays import columns_of
from fedlearn.data.sources.hidden import TOKENS


def is_hf(data: Any) -> bool:
    """Return whether data are a data set of the library `datasets`, or its parts."""
    return hasattr(data, "column_names") and (hasattr(data, "features") or isinstance(data, Mapping))


def is_array(data: Any) -> bool:
    """Return whether data are an array, a tensor, a data frame or a list."""
    return not is_hf(data) and (isinstance(data, list) or hasattr(data, "shape") or bool(columns_of(data)))


def is_loader(data: Any) -> bool:
    """Return whether data are a DataLoader."""
    return hasattr(data, "dataset") and hasattr(data, "batch_sampler")


def is_pairs(data: Any) -> bool:
    """Return whether data are entries of an input and a target: a data set of torch, a list of pairs, a stream."""
    if isinstance(data, str | bytes | Mapping | tuple | Set) or hasattr(data, "shape") or columns_of(data):
        return False
    if isinstance(data, list):
        return bool(data) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in data)
    return not isinstance(data, type) and (hasattr(data, "__getitem__") or hasattr(data, "__iter__"))


def is_tokenized(data: Any) -> bool:
    """Return whether data are what a tokenizer returns, tokens by name."""
    return isinstance(data, Mapping) and TOKENS in data


def is_part(data: Any) -> bool:
    """Return whether data have both inputs and targets, so that they may be one of (train, test)."""
    if isinstance(data, tuple):
        return len(data) == 2 and all(map(is_array, data))
    if isinstance(data, Examples) or is_hf(data) or is_loader(data) or is_tokenized(data):
        return True
    return is_pairs(data) and type(data) is not list


def names_a_column(data: Any) -> bool:
    """Return whether data are one or two tables and the name of the column that is learned, or a list of names."""
    if not (isinstance(data, tuple) and len(data) in (2, 3) and all(is_hf(p) or columns_of(p) for p in data[:-1])):
        return False
    names = data[-1]
    return isinstance(names, str) or (isinstance(names, list) and len(names) > 0 and _are_columns(data[0], names))


def _are_columns(table: Any, names: list[Any]) -> bool:
    """Return whether names are columns of a table, and no targets of its rows."""
    return all(isinstance(name, str) for name in names) and {*names} <= {*map(str, columns_of(table))}


def is_split(data: Any) -> bool:
    """Return whether four arrays are X, X_test, y, y_test, as `train_test_split` of scikit-learn returns them."""
    rows, lengths = [np.shape(part)[1:] for part in data], [np.shape(part)[:1] for part in data]
    return rows[0] == rows[1] != rows[2] == rows[3] and lengths[:2] == lengths[2:]


def described(data: Any) -> str:
    """Return what an object is, in some words.

    >>> described((3, None)), described(7)
    ('a tuple of int, NoneType', '7')
    """
    if isinstance(data, tuple | list | Set):
        kinds = [type(each).__name__ for each in data]
        return f"a {type(data).__name__} of {', '.join(kinds[:5])}{', ...' if len(kinds) > 5 else ''}"
    return quoted(data)[:80]
