"""Which node has which examples, as a file or a function says."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data.reading import one_line_of, text_of

NO_NODE = -1
MOST_BYTES = 1 << 28  # of a file

Rows = NDArray[np.int32]


def node_of_each(file: Path, examples: int) -> NDArray[np.int64]:
    """Return the node of each training example that a file names; -1 for an example that the file does not name.

    A .csv file has the columns ``example`` (its row in the training set, from 0) and ``node`` (from 0), or ``node``
    alone, one line for each example. A .json file is a list of nodes, one for each example, or an object of node and
    list of examples.

    Raises
    ------
    UsageError
        With the file, the line and what is allowed.
    """
    if not file.is_file():
        raise SettingError("data.partition", str(file), "there is no such file")
    with one_line_of(file):
        text = text_of(file, most=MOST_BYTES)
        pairs = _from_csv(file, text) if file.suffix == ".csv" else _from_json(file, json.loads(text))
    nodes = np.full(examples, NO_NODE, np.int64)
    for place, example, node in pairs:
        if not (_is_count(example) and example < examples):
            raise UsageError(f"{file}, {place}: example {example!r}: it must be an integer from 0 to {examples - 1}")
        if not _is_count(node):
            raise UsageError(f"{file}, {place}: client {node!r}: it must be an integer from 0")
        if nodes[example] not in (NO_NODE, node):
            raise UsageError(f"{file}, {place}: example {example} has client {nodes[example]} already")
        nodes[example] = node
    return nodes


Triples = list[tuple[str, Any, Any]]
"""Place in the file, example, node."""


def _from_csv(file: Path, text: str) -> Triples:
    rows = csv.DictReader(text.splitlines())
    names = rows.fieldnames or []
    if "node" not in names or not set(names) <= {"example", "node"}:
        raise UsageError(f"{file}, line 1: the columns must be example,node or only node, not {','.join(names)}")
    lines = [(f"line {rows.line_num}", row) for row in rows]
    return [
        (place, _integer(row["example"]) if "example" in names else number, _integer(row["node"]))
        for number, (place, row) in enumerate(lines)
    ]


def _from_json(file: Path, content: Any) -> Triples:
    if isinstance(content, list):
        return [(f"entry {number}", number, node) for number, node in enumerate(content)]
    if isinstance(content, dict) and all(isinstance(mine, list) for mine in content.values()):
        return [(f"node {node}", example, _integer(node)) for node, mine in content.items() for example in mine]
    raise UsageError(f'{file}: it must be [NODE, ...], one for each example, or {{"NODE": [EXAMPLE, ...], ...}}')


def _integer(text: str | None) -> int | str | None:
    try:
        return int(text or "")
    except ValueError:
        return text


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def rows_of_each(returned: object, *, name: str, nodes: int, examples: int) -> list[Rows]:
    """Return the rows of each node, as a function from outside has returned them.

    Parameters
    ----------
    returned
        An array of integers, the node of each training example, -1 for no node; or the rows of each node.
    name
        Name of the function, for messages.

    Raises
    ------
    SettingError
        If what was returned is no partition of the training examples over the nodes.
    """

    def wrong(text: str) -> SettingError:
        return SettingError("data.partition", name, text)

    each = np.asarray(returned) if isinstance(returned, np.ndarray) or _are_integers(returned) else None
    if each is not None:
        if each.shape != (examples,) or each.dtype.kind not in "iu":
            raise wrong(
                f"it must give the client of each of the {examples} examples, and gave {each.dtype} of {each.shape}"
            )
        if len(outside := each[(each < NO_NODE) | (each >= nodes)]):
            raise wrong(
                f"it gave client {outside[0]}: with clients = {nodes} clients are 0 to {nodes - 1}, -1 is no client"
            )
        return by_node(each, np.arange(examples, dtype=np.int32), nodes)
    if not isinstance(returned, Sequence) or len(returned) != nodes:
        raise wrong(f"it must give the client of each example, or the rows of each of the {nodes} clients")
    parts = [np.asarray(rows, np.int64).reshape(-1) for rows in returned]
    whole = np.concatenate(parts)
    if len(outside := whole[(whole < 0) | (whole >= examples)]):
        raise wrong(f"it gave example {outside[0]}: examples are 0 to {examples - 1}")
    counts = np.bincount(whole, minlength=examples)
    if counts.max(initial=0) > 1:
        raise wrong(f"it gave example {int(counts.argmax())} to two clients, or twice to one")
    return [part.astype(np.int32) for part in parts]


def _are_integers(given: object) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(each, int | np.integer) for each in given)


def by_node(nodes: NDArray[np.integer[Any]], order: Rows, num_partitions: int) -> list[Rows]:
    """Return the rows of each node, in the order in which they stand in `order`; -1 is no node.

    >>> by_node(np.array([1, 0, -1, 1]), np.array([3, 2, 1, 0], np.int32), 2)
    [array([1], dtype=int32), array([3, 0], dtype=int32)]
    """
    sorted_rows = order[np.argsort(nodes[order], kind="stable")]
    ends = np.cumsum(np.bincount(nodes + 1, minlength=num_partitions + 1))  # the first are those of no node
    return np.split(sorted_rows, ends)[1 : num_partitions + 1]
