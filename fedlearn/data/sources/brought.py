"""What users have in their hands as a data set: arrays, frames, data sets of other libraries, data node by node.

What cannot be read is refused in one line that names the form or the function to use; what is guessed or left out is a
line of `Dataset.notice`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedlearn.data.base import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.arrays import from_arrays
from fedlearn.data.sources.as_arrays import array_of, columns_of, in_order
from fedlearn.data.sources.columns import frame_arrays
from fedlearn.data.sources.libraries import check_lengths, hf_arrays, is_stream, torch_arrays
from fedlearn.words.errors import UsageError, quoted

FORMS = (
    "give (X, y), (X, y, X_test, y_test), (frame, 'COLUMN'), a data set of torch or of the library datasets, a "
    "DataLoader, a dict of these by node, a fedlearn.data.Dataset, a name or a path"
)
ARRAYS = {"X", "y", "X_test", "y_test", "groups", "groups_test"}
TRAIN, TESTS = "train", ("test", "validation", "valid", "val")
UNUSED = ("unsupervised", "dev")
INPUTS = ("image", "img", "input_ids")  # columns of `datasets` that are learned from, unless one column has pictures
TARGETS = ("label", "labels", "target")
LOADER = (
    "of a DataLoader its data set is taken: its batch size, sampler and collate_fn are not used, and nodes draw "
    "batches of training.batch_size"
)


@dataclass(frozen=True, slots=True)
class Brought:
    """What an object of a user holds.

    Parameters
    ----------
    name
        Name of the data set, in messages and results.
    arrays
        Keywords of `from_arrays`: X, y, and maybe X_test, y_test, groups, groups_test, classes.
    said
        Lines on what was guessed or left out.
    nodes
        Names of the nodes, if the object gave the data of each node; their places are the groups.
    """

    name: str
    arrays: Mapping[str, Any]
    said: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def dataset(self) -> Dataset:
        """Return the data set, kept in the cache."""
        found = from_arrays(**self.arrays, name=self.name)
        said = [*self.said, *_many_classes(found)]
        found = replace(found, notice="; ".join(said)) if said else found
        return replace(found, group_names=self.nodes) if self.nodes else found

    @property
    def scored(self) -> tuple[Any, Any]:
        """The examples that a model is measured on: those for testing if there are any, else all."""
        has_test = self.arrays.get("X_test") is not None
        return (self.arrays["X_test"], self.arrays["y_test"]) if has_test else (self.arrays["X"], self.arrays["y"])


def from_any(data: Any, *, name: str = "arrays") -> Dataset:
    """Return what `fedlearn.run` takes as ``data`` as a data set.

    Parameters
    ----------
    data
        ``(X, y)``; ``(X, y, X_test, y_test)``; ``(frame, "COLUMN")`` with the column that is learned; a data set of
        torch, a DataLoader, pairs of an input and a target; a data set of the library `datasets`; a Bunch of
        scikit-learn; two of these, ``(train, test)``; or a dict that gives one of these for each node by its name.
    name
        Name in messages and results.

    Raises
    ------
    UsageError
        If the data are none of these; in one line, with what to write.

    Examples
    --------
    >>> import numpy as np
    >>> from_any((np.random.default_rng(1).random((10, 3)), ["no", "yes"] * 5))
    Dataset('arrays', 8 + 2 examples of 3 float32, 2 classes)
    """
    return data if isinstance(data, Dataset) else brought(data, name=name).dataset()


@one_line_errors
def brought(data: Any, *, name: str = "arrays") -> Brought:
    """Return what an object of a user holds.

    Raises
    ------
    UsageError
        If the data cannot be read; in one line, with what to write.
    """
    read = next((read for is_it, read in _FORMS if is_it(data)), None)
    if read is None:
        raise _wrong(name, f"{_described(data)} cannot be read as data: {FORMS}")
    return read(data, name)


def _described(data: Any) -> str:
    """Return what an object is, in some words.

    >>> _described((3, None)), _described(7)
    ('a tuple of int, NoneType', '7')
    """
    if isinstance(data, tuple | list | Set):
        kinds = [type(each).__name__ for each in data]
        return f"a {type(data).__name__} of {', '.join(kinds[:5])}{', ...' if len(kinds) > 5 else ''}"
    return quoted(data)[:80]


def _wrong(name: str, text: str) -> UsageError:
    return UsageError(f"data set {name!r}: {text}")


def _wrong_of(name: str) -> Callable[[str], UsageError]:
    return lambda text: _wrong(name, text)


# --- what a form is known by ------------------------------------------------------------------------------------------


def _is_hf(data: Any) -> bool:
    """Return whether data are a data set of the library `datasets`, or its parts."""
    return hasattr(data, "column_names") and (hasattr(data, "features") or isinstance(data, Mapping))


def _is_array(data: Any) -> bool:
    return not _is_hf(data) and (isinstance(data, list) or hasattr(data, "shape") or bool(columns_of(data)))


def _is_loader(data: Any) -> bool:
    return hasattr(data, "dataset") and hasattr(data, "batch_sampler")


def _is_pairs(data: Any) -> bool:
    """Return whether data are entries of an input and a target: a data set of torch, a list of pairs, a stream."""
    if isinstance(data, str | bytes | Mapping | tuple | Set) or hasattr(data, "shape") or columns_of(data):
        return False
    if isinstance(data, list):
        return bool(data) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in data)
    return not isinstance(data, type) and (hasattr(data, "__getitem__") or hasattr(data, "__iter__"))


def _is_part(data: Any) -> bool:
    """Return whether data have both inputs and targets, so that they may be one of (train, test)."""
    if isinstance(data, tuple):
        return len(data) == 2 and all(map(_is_array, data))
    return (
        isinstance(data, Examples) or _is_hf(data) or _is_loader(data) or (_is_pairs(data) and type(data) is not list)
    )


def _names_a_column(data: Any) -> bool:
    """Return whether data are one or two tables and the name of the column that is learned."""
    is_sized = isinstance(data, tuple) and len(data) in (2, 3) and isinstance(data[-1], str)
    return is_sized and all(_is_hf(part) or columns_of(part) for part in data[:-1])


# --- forms ------------------------------------------------------------------------------------------------------------


def _of_examples(data: Examples, name: str) -> Brought:
    return Brought(name, {"X": data.inputs, "y": data.targets, "groups": data.groups})


def _of_named(data: Any, name: str) -> Brought:
    *parts, target = data
    if _is_hf(parts[0]):
        return _of_hf(parts[0] if len(parts) == 1 else {TRAIN: parts[0], TESTS[0]: parts[1]}, name, target)
    return Brought(name, frame_arrays(*parts, target=target, name=name))


def _of_hf(data: Any, name: str, target: str = "") -> Brought:
    parts = data if isinstance(data, Mapping) else {TRAIN: data}
    check_lengths(parts, name)
    train, test, said = _parts(parts, name)
    inputs, learned, guessed = _columns_of_hf(train, name, target)
    return Brought(name, hf_arrays(train, test, name=name, inputs=inputs, target=learned), (*said, *guessed))


def _columns_of_hf(part: Any, name: str, target: str) -> tuple[list[str], str, tuple[str, ...]]:
    """Return the columns that are learned from, the column that is learned, and what is said of the choice."""
    features = dict(part.features)
    kinds = {column: type(kind).__name__ for column, kind in features.items()}
    named = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    known = [column for column in TARGETS if column in features]
    learned = target or next(iter(named if len(named) == 1 else known), "")
    if learned not in features:
        which = f"it has no column {learned!r}" if learned else "no column is the target for sure"
        raise _wrong(name, f"{which}: give (data, 'COLUMN') with one of {', '.join(features)}")
    pictures = [column for column, kind in kinds.items() if kind == "Image"]
    known = [column for column in INPUTS if column in features]
    rest = [column for column in features if column != learned]
    inputs = pictures if len(pictures) == 1 else known[:1] or rest
    if texts := [c for c in inputs if getattr(features[c], "dtype", "") in ("string", "large_string")]:
        how = f"from_hf(data, inputs=[...], target={learned!r}) names others; texts become tokens first"
        raise _wrong(name, f"its column {texts[0]!r} holds texts, which no model takes: {how}")
    left_out = [column for column in rest if column not in inputs]
    if target and not left_out:
        return inputs, learned, ()
    more = f", {', '.join(left_out[:10])} left out" if left_out else ""
    return inputs, learned, (f"learned: {learned}, from {', '.join(inputs[:10])}{more}",)


def _of_bunch(data: Any, name: str) -> Brought:
    """Return a Bunch of scikit-learn; `target_names` are classes, or in others the names of the columns learned."""
    X, y, columns = (
        data["data"],
        array_of(data["target"], "y", _wrong_of(name)),
        data.get("feature_names"),
    )
    if not columns_of(X) and getattr(X, "ndim", 0) == 2 and columns is not None and len(columns) == X.shape[1]:
        import pandas as pd

        X = pd.DataFrame(np.asarray(X), columns=list(map(str, columns)))
    names = data.get("target_names")
    is_named = names is not None and y.dtype.kind in "iu" and y.ndim == 1 and len(names) > max(1, y.max())
    return Brought(name, {"X": X, "y": y, "classes": tuple(map(str, names)) if is_named else None})


def _of_pairs(data: Any, name: str, test: Any = None) -> Brought:
    found = torch_arrays(data, test, name=name)
    return Brought(name, found, _random_transform(data, found["X"]))


def _of_loader(data: Any, name: str) -> Brought:
    found = brought(data.dataset, name=name)
    return replace(found, said=(*found.said, LOADER))


def _of_two(data: Any, name: str) -> Brought:
    """Return parts for training and testing, each of any form that has inputs and targets."""
    if len(data) == 3:
        raise _wrong(name, "three parts are given: give (train, test), and join or leave out the third")
    train, test = data
    if _is_hf(train) and _is_hf(test):
        return _of_hf({TRAIN: train, TESTS[0]: test}, name)
    loaders = [LOADER] if _is_loader(train) or _is_loader(test) else []
    sets = [part.dataset if _is_loader(part) else part for part in data]
    if all(_is_pairs(part) for part in sets):
        found = _of_pairs(sets[0], name, sets[1])
        return replace(found, said=(*found.said, *loaders))
    ours, theirs = (brought(part, name=name) for part in sets)
    classes, codes = _common_classes([ours, theirs], (TRAIN, TESTS[0]), name)
    arrays = {**ours.arrays, "y": codes[0], "X_test": theirs.arrays["X"], "y_test": codes[1], "classes": classes}
    arrays["groups_test"] = theirs.arrays.get("groups")
    return Brought(name, arrays, (*ours.said, *theirs.said, *loaders))


def _of_tuple(data: Any, name: str) -> Brought:
    if len(data) == 2:
        arrays = dict(zip(("X", "y"), data, strict=True))
    else:
        _check_order(data, name)
        arrays = dict(zip(("X", "y", "X_test", "y_test"), data, strict=True))
    learned = getattr(arrays["y"], "name", None)
    if learned is not None and learned in columns_of(arrays["X"]):
        column, target = np.asarray(arrays["X"][learned]), np.asarray(arrays["y"])
        if column.shape == target.shape and bool((column == target).all()):
            raise _wrong(name, f"X holds the column {learned!r}, which is y: give (X, {learned!r}), or X without it")
    return Brought(name, arrays)


def _check_order(data: Any, name: str) -> None:
    """Refuse what `train_test_split` returns: X, X_test, y, y_test."""
    rows = [np.shape(part)[1:] for part in data]
    lengths = [np.shape(part)[:1] for part in data]
    is_split = rows[0] == rows[1] != rows[2] == rows[3] and (lengths[0], lengths[1]) == (lengths[2], lengths[3])
    if is_split:
        raise _wrong(name, "these are X, X_test, y, y_test, as of train_test_split: give (X, y, X_test, y_test)")


def _of_table(data: Any, name: str) -> Brought:
    names = [str(column) for column in columns_of(data)]
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise _wrong(name, f"a frame does not say which column is learned: give (frame, 'COLUMN') with one of {listed}")


def _of_array(data: Any, name: str) -> Brought:
    raise _wrong(name, f"these are inputs without targets: {FORMS}")


def _of_mapping(data: Mapping[Any, Any], name: str) -> Brought:
    keys = set(data)
    if {"X", "y"} <= keys <= ARRAYS:
        return Brought(name, dict(data))
    if TRAIN in keys and keys <= {TRAIN, *TESTS, *UNUSED}:
        train, test, said = _parts(data, name)
        found = brought(train if test is None else (train, test), name=name)
        return replace(found, said=(*said, *found.said))
    return _of_nodes(data, name)


def _parts(parts: Mapping[Any, Any], name: str) -> tuple[Any, Any, tuple[str, ...]]:
    """Return the part to train on, the part for testing or None, and what is said of the choice."""
    if TRAIN not in parts:
        raise _wrong(name, f"it has no part 'train': give one of its parts, {', '.join(map(str, parts))}")
    named = next((each for each in TESTS if each in parts), None)
    others = [str(each) for each in parts if each not in (TRAIN, named)]
    said = [f"part {named!r} is for testing"] * (named not in (None, TESTS[0]))
    return (
        parts[TRAIN],
        None if named is None else parts[named],
        (*said, *(f"part {each!r} is not used" for each in others)),
    )


# --- data node by node ------------------------------------------------------------------------------------------------


def _of_nodes(data: Mapping[Any, Any], name: str) -> Brought:
    nodes = tuple(map(str, data))
    if not nodes or len(set(nodes)) < len(nodes):
        raise _wrong(name, "a dict gives the data of each node by the node's name: it has none, or one name twice")
    each = [brought(value, name=f"{name}, node {node}") for node, value in zip(nodes, data.values(), strict=True)]
    inner = next((node for node, found in zip(nodes, each, strict=True) if found.nodes), None)
    if inner is not None:
        raise _wrong(name, f"node {inner!r} is a dict itself: {FORMS}")
    tests = [found.arrays.get("X_test") is not None for found in each]
    if any(tests) and not all(tests):
        with_test, without = nodes[tests.index(True)], nodes[tests.index(False)]
        raise _wrong(
            name, f"node {with_test!r} has examples for testing and node {without!r} has none: give all or none"
        )
    classes, y = _common_classes(each, nodes, name)
    arrays = {"X": _joined("X", [found.arrays["X"] for found in each], nodes, name), "classes": classes}
    arrays |= {"y": _joined("y", y, nodes, name), "groups": _owners(y)}
    if any(tests):
        _, y_test = _common_classes(each, nodes, name, "y_test")
        arrays["X_test"] = _joined("X", [found.arrays["X_test"] for found in each], nodes, name)
        arrays |= {"y_test": _joined("y", y_test, nodes, name), "groups_test": _owners(y_test)}
    said = tuple(dict.fromkeys(line for found in each for line in found.said))
    return Brought(name, arrays, said, nodes)


def _owners(targets: Sequence[Any]) -> Any:
    return np.repeat(np.arange(len(targets)), [len(target) for target in targets])


def _common_classes(
    each: Sequence[Brought], nodes: Sequence[str], name: str, part: str = "y"
) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Return the names of all classes, and the targets of each part numbered by them."""
    targets = [found.arrays[part] for found in each]
    named = [found.arrays.get("classes") for found in each]
    if len(set(named)) == 1:
        return named[0], targets
    if None in named:
        has_none = nodes[named.index(None)]
        raise _wrong(name, f"the classes of {has_none!r} have numbers, and those of others names: give names to all")
    known = [found or () for found in named]
    names = tuple(dict.fromkeys(each for found in known for each in found))
    places = [np.array([names.index(each) for each in found]) for found in known]
    return names, [place[np.asarray(target)] for place, target in zip(places, targets, strict=True)]


def _joined(what: str, parts: Sequence[Any], nodes: Sequence[str], name: str) -> Any:
    """Return the inputs or targets of all nodes in one array; in one data frame if the nodes have data frames."""
    if all(columns_of(part) for part in parts):
        import pandas as pd

        frames = [part.to_pandas() if hasattr(part, "to_pandas") else part for part in parts]
        for node, frame in zip(nodes, frames, strict=True):
            try:
                in_order(frames[0], frame)
            except ValueError as error:
                raise _wrong(name, f"{what} of node {node!r} {error} of node {nodes[0]!r}: name them alike") from None
        return pd.concat([in_order(frames[0], frame) for frame in frames], ignore_index=True)
    arrays = [array_of(part, what, _wrong_of(f"{name}, node {node}")) for node, part in zip(nodes, parts, strict=True)]
    kinds = [f"{_kind(array)} of shape (n{''.join(f', {side}' for side in array.shape[1:])})" for array in arrays]
    other = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise _wrong(name, f"{what} of {nodes[0]!r} is {kinds[0]}, and of {nodes[other]!r} {kinds[other]}")
    return np.concatenate(arrays)


def _kind(array: Any) -> str:
    words = {"U": "texts", "b": "truth values", "f": "floats", "i": "integers", "u": "integers"}
    return "uint8" if array.dtype == np.uint8 else words[array.dtype.kind]


# --- what is said -----------------------------------------------------------------------------------------------------


def _random_transform(data: Any, X: Any) -> tuple[str, ...]:
    """Return a line if the first example has changed since it was read."""
    if is_stream(data) or not hasattr(data, "__len__"):
        return ()
    again = torch_arrays([data[0]], name="")["X"]
    return () if np.array_equal(again[0], X[0]) else (RANDOM,)


RANDOM = (
    "examples change from reading to reading, as by a random transform: each was read once and stays; "
    "data.augment=True flips and crops pictures anew"
)


def _many_classes(found: Dataset) -> tuple[str, ...]:
    """Return a line if whole numbers may have been meant as numbers, not as classes."""
    if (
        found.class_names
        or found.vocabulary
        or found.train.targets.ndim > 1
        or 2 * found.num_classes < len(found.train)
    ):
        return ()
    return (
        f"y holds integers, which are {found.num_classes:,} classes for {len(found.train):,} examples: give floats if "
        "they are numbers of a regression",
    )


_FORMS: tuple[tuple[Callable[[Any], bool], Callable[[Any, str], Brought]], ...] = (
    (lambda data: isinstance(data, Examples), _of_examples),
    (_names_a_column, _of_named),
    (_is_hf, _of_hf),
    (lambda data: isinstance(data, Mapping) and {"data", "target"} <= set(data), _of_bunch),
    (lambda data: isinstance(data, Mapping), _of_mapping),
    (_is_loader, _of_loader),
    (lambda data: isinstance(data, tuple) and len(data) in (2, 3) and all(map(_is_part, data)), _of_two),
    (lambda data: isinstance(data, tuple | list) and len(data) in (2, 4) and all(map(_is_array, data)), _of_tuple),
    (_is_pairs, _of_pairs),
    (lambda data: bool(columns_of(data)), _of_table),
    (_is_array, _of_array),
)
"""Tests and readers, the first that fits counts."""
