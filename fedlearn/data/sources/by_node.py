"""Inputs and targets of several nodes in one array: columns and classes are matched by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.data_spec import joined as examples_joined
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import draws_by_itself, share_held_out
from fedlearn.data.kept_arrays import kept
from fedlearn.data.sources.as_arrays import array_of, columns_of, in_order
from fedlearn.data.sources.declared import SPLIT_SEED, TEST_SHARE

KINDS = {"U": "texts", "b": "truth values", "f": "floats", "i": "integers", "u": "integers"}


def common_classes(
    targets: Sequence[Any], named: Sequence[tuple[str, ...] | None], nodes: Sequence[str], name: str
) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Return the names of all classes, and the targets of each node numbered by them.

    Parameters
    ----------
    named
        Names of the classes of each node; None of a node whose classes are numbers, texts or not there.

    Raises
    ------
    UsageError
        If some nodes have names of classes and others have none.
    """
    if len(set(named)) == 1:
        return named[0], list(targets)
    if None in named:
        has_none = nodes[named.index(None)]
        raise UsageError(
            f"data set {name!r}: the classes of {has_none!r} have numbers, and those of others names: give names to all"
        )
    known = [found or () for found in named]
    names = tuple(dict.fromkeys(each for found in known for each in found))
    places = [np.array([names.index(each) for each in found]) for found in known]
    return names, [place[np.asarray(target)] for place, target in zip(places, targets, strict=True)]


def joined(what: str, parts: Sequence[Any], nodes: Sequence[str], name: str) -> Any:
    """Return the inputs or targets of all nodes in one array; in one data frame if the nodes have data frames.

    Raises
    ------
    UsageError
        If nodes have other columns, shapes or kinds of numbers than the first.
    """
    if all(columns_of(part) for part in parts):
        return _one_frame(what, parts, nodes, name)
    arrays = [array_of(part, what, _wrong(f"{name}, client {node}")) for node, part in zip(nodes, parts, strict=True)]
    kinds = [f"{_kind(array)} of shape (n{''.join(f', {side}' for side in array.shape[1:])})" for array in arrays]
    other = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise _wrong(name)(f"{what} of {nodes[0]!r} is {kinds[0]}, and of {nodes[other]!r} {kinds[other]}")
    return np.concatenate(arrays)


def with_held_out(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return keywords of `from_arrays` in which a fixed share of each node's examples is for testing.

    A node of one example trains on it. Without a node of two examples, or where nothing is held out, nothing changes;
    nor where each record draws its part by itself, which `from_arrays` lets it do.
    """
    share, owners = 0.0 if draws_by_itself() else share_held_out(TEST_SHARE), arrays["groups"]
    is_test = np.zeros(len(owners), bool)
    for node in range(owners.max() + 1) if share else ():
        rows = np.flatnonzero(owners == node)
        order = rng_for(SPLIT_SEED, purpose="test split").permutation(rows)
        is_test[order[: min(max(1, round(share * len(rows))), len(rows) - 1)]] = True
    if not is_test.any():
        return arrays
    parts = {
        f"{name}{ending}": values.loc[chosen] if hasattr(values, "loc") else values[chosen]
        for name, values in ((name, arrays[name]) for name in ("X", "y", "groups"))
        for ending, chosen in (("", ~is_test), ("_test", is_test))
    }
    return {**arrays, **parts}


def joined_sets(sets: Mapping[str, Dataset], name: str) -> Dataset:
    """Return the data sets of several nodes, by the nodes' names, as one in which each node is a group.

    Raises
    ------
    UsageError
        If two of them are not declared alike.
    """
    nodes, each = tuple(sets), list(sets.values())
    facts = [replace(found.spec, name="", groups=0) for found in each]
    for node, found, fact in zip(nodes, each, facts, strict=True):
        if found.made is not None:
            raise _wrong(name)(f"client {node!r}: its examples are made client by client: give the data set itself")
        if fact != facts[0]:
            other = next(name for name in _NAMES if getattr(fact, name) != getattr(facts[0], name))
            said = _NAMES[other]
            raise _wrong(name)(
                f"client {node!r} has another {said} than client {nodes[0]!r}: declare all clients alike"
            )
    own = [found.validation for found in each]
    train = [_owned(found.train, node) for node, found in enumerate(each)]
    chosen = [_owned(found.test.at(slice(own[node])), node) for node, found in enumerate(each)]
    tests = [_owned(found.test.at(slice(own[node], None)), node) for node, found in enumerate(each)]
    whole = kept(
        name, examples_joined(train), examples_joined([*chosen, *tests]), {"num_classes": 0, "mean": (), "std": ()}
    )
    return replace(
        each[0],
        name=name,
        train=whole.train,
        test=whole.test,
        fingerprint=whole.fingerprint,
        notice="; ".join(dict.fromkeys(found.notice for found in each if found.notice)),
        group_names=nodes,
        counted=tuple(dict.fromkeys(fact for found in each for fact in found.counted)),
        test_is_public=each[0].test_is_public if len({found.test_is_public for found in each}) == 1 else False,
        validation=sum(own),
    )


_NAMES = {field.name: field.name for field in fields(DataSpec)} | {
    "table": "declaration",
    "classes": "number of classes",
}
"""Facts of data sets, and what an error calls them."""


def _owned(examples: Examples, node: int) -> Examples:
    return Examples(examples.inputs, examples.targets, np.full(len(examples), node))


def _one_frame(what: str, parts: Sequence[Any], nodes: Sequence[str], name: str) -> Any:
    import pandas as pd

    frames = [part.to_pandas() if hasattr(part, "to_pandas") else part for part in parts]
    for place, node in enumerate(nodes):
        try:
            frames[place] = in_order(frames[0], frames[place]).set_axis(frames[0].columns, axis=1)
        except ValueError as error:
            raise _wrong(name)(f"{what} of client {node!r} {error} of client {nodes[0]!r}: name them alike") from None
    return pd.concat(frames, ignore_index=True)


def _kind(array: NDArray[Any]) -> str:
    return "uint8" if array.dtype == np.uint8 else KINDS[array.dtype.kind]


def _wrong(name: str) -> Callable[[str], UsageError]:
    return lambda text: UsageError(f"data set {name!r}: {text}")
