"""What users have in their hands as a data set: arrays, frames, data sets of other libraries, data node by node.

What cannot be read is refused in one line that names the form or the function to use; what is guessed or left out is a
line of `Dataset.notice`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import TEST_ROWS, Dataset
from fedlearn.data.drawing import draws_by_itself, leaves_unfit_out
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.as_arrays import array_of, columns_of
from fedlearn.data.sources.by_node import common_classes, joined, joined_sets, with_held_out
from fedlearn.data.sources.column_guessing import (
    TESTS,
    TRAIN,
    UNUSED,
    chosen_columns,
    chosen_parts,
    labeled_parts,
    many_classes,
    own_validation,
)
from fedlearn.data.sources.forms import (
    described,
    is_array,
    is_hf,
    is_loader,
    is_pairs,
    is_part,
    is_split,
    is_tokenized,
    names_a_column,
)
from fedlearn.data.sources.hidden import LABELS, MASK, TOKENS, with_hidden, with_next
from fedlearn.data.sources.libraries import check_lengths, hf_arrays, input_column, is_stream, torch_arrays
from fedlearn.data.sources.named_columns import frame_arrays
from fedlearn.data.validation import OWN_ROWS

FORMS = (
    "give (X, y), (X, y, X_test, y_test), (frame, 'COLUMN'), a data set of torch or of the library datasets, a "
    "DataLoader, a dict of these by client, a fedlearn.data.Dataset, a name or a path"
)
ARRAYS = {"X", "y", "X_test", "y_test", "groups", "groups_test", "mask", "mask_test"}
LOADER = (
    "of a DataLoader its data set is taken: its batch size, sampler and collate_fn are not used, and clients draw "
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
        Keywords of `from_arrays`: X, y, and maybe X_test, y_test, groups, groups_test, classes, channels.
    said
        Lines on what was guessed or left out.
    nodes
        Names of the nodes, if the object gave the data of each node; their places are the groups.
    validation
        How many of the test examples, from the first, are validation rows.
    whole
        The data set, where the object held data sets of nodes; then there are no `arrays`.
    """

    name: str
    arrays: Mapping[str, Any]
    said: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    validation: int = 0
    whole: Dataset | None = None

    def dataset(self) -> Dataset:
        """Return the data set, kept in the cache."""
        if self.whole is not None:
            return self.whole
        is_split = self.arrays.get("X_test") is not None
        arrays = with_held_out(self.arrays) if self.nodes and not is_split else self.arrays
        found = from_arrays(**arrays, name=self.name)
        said = [*filter(None, [found.notice]), *self.said, *many_classes(found)]
        found = replace(found, notice="; ".join(said)) if said else found
        if not self.nodes:
            return replace(found, validation=self.validation) if self.validation else found
        is_drawn = not (is_split or TEST_ROWS in found.counted or draws_by_itself())
        counted = (*found.counted, *((TEST_ROWS,) if is_drawn else ()))
        return replace(found, group_names=self.nodes, counted=counted, validation=self.validation)

    @property
    def scored(self) -> tuple[Any, Any]:
        """The examples that a model is measured on: those for testing if there are any, else all."""
        has_test = self.arrays.get("X_test") is not None
        return (
            (self.arrays["X_test"][self.validation :], self.arrays["y_test"][self.validation :])
            if has_test
            else (self.arrays["X"], self.arrays["y"])
        )


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
        raise _wrong(name, f"{described(data)} cannot be read as data: {FORMS}")
    return read(data, name)


def _wrong(name: str, text: str) -> UsageError:
    return UsageError(f"data set {name!r}: {text}")


def _wrong_of(name: str) -> Callable[[str], UsageError]:
    return lambda text: _wrong(name, text)


# --- forms ------------------------------------------------------------------------------------------------------------


def _of_examples(data: Examples, name: str) -> Brought:
    return Brought(name, {"X": data.inputs, "y": data.targets, "groups": data.groups})


def _of_named(data: Any, name: str) -> Brought:
    *parts, target = data
    if is_hf(parts[0]):
        if not isinstance(target, str):
            raise _wrong(name, "of a data set of `datasets` one column is learned: give data.to_pandas() for several")
        return _of_hf(parts[0] if len(parts) == 1 else {TRAIN: parts[0], TESTS[0]: parts[1]}, name, target)
    return Brought(name, frame_arrays(*parts, target=target, name=name))


def _of_hf(data: Any, name: str, target: str = "") -> Brought:
    parts = data if isinstance(data, Mapping) else {TRAIN: data}
    check_lengths(parts, name)
    parts, unlabeled = labeled_parts(parts, name, target)
    train, test, said = chosen_parts(parts, name)
    inputs, learned, guessed = chosen_columns(train, name, target)
    said = (*unlabeled, *said)
    found, shifted = _shifted(hf_arrays(train, test, name=name, inputs=inputs, target=learned), inputs)
    made = Brought(name, found, (*said, *guessed, *shifted, *_of_transform(train, inputs, found["X"], name)))
    if (part := own_validation(parts)) is None:
        return made
    own, _ = _shifted(hf_arrays(train, parts[part], name=name, inputs=inputs, target=learned), inputs)
    return _with_own(made, Brought(name, own), part)


def _shifted(arrays: Mapping[str, Any], inputs: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    return with_next(arrays) if inputs == [TOKENS] else (dict(arrays), ())


def _of_encoding(data: Any, name: str) -> Brought:
    """Return what a tokenizer returns, with its mask and labels."""
    wrong = _wrong_of(name)
    if LABELS not in data:
        raise wrong("a tokenizer's output has no labels: give (X, y), or set its labels, with -100 where none counts")
    tokens, hides = array_of(data[TOKENS], TOKENS, wrong), MASK in data
    X = with_hidden(tokens, data[MASK], TOKENS, wrong) if hides else tokens
    arrays, said = with_next({"X": X, "y": array_of(data[LABELS], LABELS, wrong)})
    return Brought(name, {**arrays, "hides": hides}, said)


def _with_own(found: Brought, own: Brought, part: str) -> Brought:
    """Return data with the test part of `own` as validation rows, before the test rows."""
    ours, theirs = found.arrays, own.arrays
    if leaves_unfit_out():  # then none can be counted
        return replace(found, said=(*found.said, f"part {part!r} is not used"))
    if ours.get("classes") != theirs.get("classes"):
        return replace(found, said=(*found.said, f"part {part!r} is not used: its classes are not those of the test"))
    names = (part, TESTS[0])
    X, y = (joined(each, [theirs[each], ours[each]], names, found.name) for each in ("X_test", "y_test"))
    groups = [theirs.get("groups_test"), ours.get("groups_test")]
    both = (
        {"groups_test": joined("groups", groups, names, found.name)} if all(each is not None for each in groups) else {}
    )
    arrays = {**ours, "X_test": X, "y_test": y, **both}
    said = OWN_ROWS.format(f"part {part!r}")
    return replace(found, arrays=arrays, validation=len(theirs["y_test"]), said=(*found.said, said))


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
    return Brought(name, found, _of_first(data, found["X"]))


def _of_loader(data: Any, name: str) -> Brought:
    if data.batch_sampler is None and data.batch_size is None:
        raise _wrong(name, "a DataLoader with batch_size=None has a data set of batches: give one of single examples")
    found = brought(data.dataset, name=name)
    return replace(found, said=(*found.said, LOADER))


def _of_two(data: Any, name: str) -> Brought:
    """Return parts for training and testing, each of any form that has inputs and targets."""
    if len(data) == 3:
        raise _wrong(name, "three parts are given: give (train, test), and join or leave out the third")
    train, test = data
    if is_hf(train) and is_hf(test):
        return _of_hf({TRAIN: train, TESTS[0]: test}, name)
    loaders = [LOADER] if is_loader(train) or is_loader(test) else []
    sets = [part.dataset if is_loader(part) else part for part in data]
    if all(is_pairs(part) for part in sets):
        found = _of_pairs(sets[0], name, sets[1])
        return replace(found, said=(*found.said, *loaders))
    ours, theirs = (brought(part, name=name) for part in sets)
    named = [part.arrays.get("classes") for part in (ours, theirs)]
    classes, codes = common_classes([ours.arrays["y"], theirs.arrays["y"]], named, (TRAIN, TESTS[0]), name)
    arrays = {**ours.arrays, "y": codes[0], "X_test": theirs.arrays["X"], "y_test": codes[1], "classes": classes}
    arrays["groups_test"] = theirs.arrays.get("groups")
    return Brought(name, arrays, tuple(dict.fromkeys((*ours.said, *theirs.said, *loaders))))


def _of_tuple(data: Any, name: str) -> Brought:
    if len(data) == 2:
        arrays = dict(zip(("X", "y"), data, strict=True))
    else:
        if is_split(data):
            raise _wrong(name, "these are X, X_test, y, y_test, as of train_test_split: give (X, y, X_test, y_test)")
        arrays = dict(zip(("X", "y", "X_test", "y_test"), data, strict=True))
    learned = getattr(arrays["y"], "name", None)
    if learned is not None and learned in columns_of(arrays["X"]):
        column, target = np.asarray(arrays["X"][learned]), np.asarray(arrays["y"])
        if column.shape == target.shape and bool((column == target).all()):
            raise _wrong(name, f"X holds the column {learned!r}, which is y: give (X, {learned!r}), or X without it")
    return Brought(name, arrays)


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
        train, test, said = chosen_parts(data, name)
        found = brought(train if test is None else (train, test), name=name)
        found = replace(found, said=(*said, *found.said))
        part = own_validation(data)
        return found if part is None else _with_own(found, brought((train, data[part]), name=name), part)
    return _of_nodes(data, name)


# --- data node by node ------------------------------------------------------------------------------------------------


def _of_nodes(data: Mapping[Any, Any], name: str) -> Brought:
    nodes = tuple(map(str, data))
    if not nodes or len(set(nodes)) < len(nodes):
        raise _wrong(name, "a dict gives the data of each client by the client's name: it has none, or one name twice")
    are_sets = [isinstance(value, Dataset) for value in data.values()]
    if any(are_sets) and not all(are_sets):
        whole, other = nodes[are_sets.index(True)], nodes[are_sets.index(False)]
        raise _wrong(name, f"client {whole!r} is a data set, and client {other!r} is none: make data sets of all")
    if all(are_sets):
        return Brought(name, {}, nodes=nodes, whole=joined_sets(dict(zip(nodes, data.values(), strict=True)), name))
    each = [brought(value, name=f"{name}, client {node}") for node, value in zip(nodes, data.values(), strict=True)]
    inner = next((node for node, found in zip(nodes, each, strict=True) if found.nodes), None)
    if inner is not None:
        raise _wrong(name, f"client {inner!r} is a dict itself: {FORMS}")
    tests = [found.arrays.get("X_test") is not None for found in each]
    if any(tests) and not all(tests):
        with_test, without = nodes[tests.index(True)], nodes[tests.index(False)]
        raise _wrong(
            name, f"client {with_test!r} has examples for testing, client {without!r} has none: give all or none"
        )
    own = [found.validation for found in each]
    if any(own) and not all(own):
        raise _wrong(name, f"client {nodes[own.index(0)]!r} has no validation rows, and others have: give all or none")
    named = [found.arrays.get("classes") for found in each]
    arrays: dict[str, Any] = {"channels": each[0].arrays.get("channels")}
    arrays["hides"] = any(found.arrays.get("hides", False) for found in each)
    for ending in ("", "_test") if any(tests) else ("",):
        X, y = ([found.arrays[f"{part}{ending}"] for found in each] for part in ("X", "y"))
        arrays["classes"], y = common_classes(y, named, nodes, name)
        owners, names = np.arange(len(nodes)), nodes
        if ending and any(own):  # the validation rows of all nodes come first
            X, y = ([each[:count] for each, count in zip(part, own, strict=True)]
                    + [each[count:] for each, count in zip(part, own, strict=True)] for part in (X, y))  # fmt: skip
            owners, names = np.tile(owners, 2), (*nodes, *nodes)
        arrays |= {f"X{ending}": joined("X", X, names, name), f"y{ending}": joined("y", y, names, name)}
        arrays[f"groups{ending}"] = np.repeat(owners, [len(target) for target in y])
    said = tuple(dict.fromkeys(line for found in each for line in found.said))
    return Brought(name, arrays, said, nodes, sum(own))


# --- what is said -----------------------------------------------------------------------------------------------------


def _of_first(data: Any, X: Any) -> tuple[str, ...]:
    """Return lines on the first entries: more parts than two, or inputs that have changed since they were read."""
    if is_stream(data) or not hasattr(data, "__len__"):
        return ()
    entry = data[0]
    again = torch_arrays([entry, *(data[place] for place in range(1, min(AGAIN, len(data))))], name="")["X"]
    more = (
        (f"entries have {len(entry)} parts: the first is the input, the second the target",) if len(entry) > 2 else ()
    )
    return more if np.array_equal(again, X[: len(again)], equal_nan=X.dtype.kind == "f") else (*more, RANDOM)


def _of_transform(train: Any, inputs: list[str], X: Any, name: str) -> tuple[str, ...]:
    """Return a line where a transform gives another first input than when it was read."""
    if len(inputs) > 1 or (getattr(train, "format", None) or {}).get("type") != "custom":
        return ()
    again, _ = input_column(train.select(range(min(AGAIN, len(train)))), inputs[0], name)
    return () if np.array_equal(again, np.asarray(X)[: len(again)].reshape(again.shape)) else (RANDOM,)


AGAIN = 8  # examples that are read twice: a random flip leaves every second one as it was
RANDOM = (
    "examples change from reading to reading, as by a random transform: each was read once and stays; "
    "data.augment=True flips and crops pictures anew"
)


_FORMS: tuple[tuple[Callable[[Any], bool], Callable[[Any, str], Brought]], ...] = (
    (lambda data: isinstance(data, Examples), _of_examples),
    (names_a_column, _of_named),
    (is_hf, _of_hf),
    (lambda data: isinstance(data, Mapping) and {"data", "target"} <= set(data), _of_bunch),
    (is_tokenized, _of_encoding),
    (lambda data: isinstance(data, Mapping), _of_mapping),
    (is_loader, _of_loader),
    (lambda data: isinstance(data, tuple) and len(data) in (2, 3) and all(map(is_part, data)), _of_two),
    (lambda data: isinstance(data, tuple | list) and len(data) in (2, 4) and all(map(is_array, data)), _of_tuple),
    (is_pairs, _of_pairs),
    (lambda data: bool(columns_of(data)), _of_table),
    (is_array, _of_array),
)
"""Tests and readers, the first that fits counts."""
