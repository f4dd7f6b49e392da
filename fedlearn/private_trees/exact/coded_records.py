"""Records as codes, and their scores under the trees so far.

A process that holds many nodes is asked for the same records in each round: their codes and scores are kept, and a
further tree is added to them. What is kept is found by the content of the records, the bins and the start, and is used
only where the trees that it stands for are the first of the state's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import xxhash
from numpy.typing import NDArray

from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.private_trees.exact.column_bins import Cells, FloatArray, IntArray
from fedlearn.private_trees.exact.exact_losses import Loss
from fedlearn.private_trees.exact.flat_trees import Trees
from fedlearn.private_trees.exact.kernels import add_up, route

MOST_RECORDS = 1 << 22  # whose scores a process keeps
WAYS = ("root", "feature", "child", "left")  # arrays of trees that say which leaf a record reaches
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Table:
    """How the columns of a table are used.

    Parameters
    ----------
    schema
        The declared columns that trees may test.
    columns
        Their places in a record.
    loss
        The loss, which says what targets mean.
    weights, heaviest
        Place of the column of weights, -1 without one; the most that a weight can be.
    subsample
        Share of the records from which an iteration learns.
    """

    schema: TableSchema
    columns: tuple[int, ...]
    loss: Loss
    weights: int = -1
    heaviest: float = 1.0
    subsample: float = 1.0

    @classmethod
    def of(cls, schema: TableSchema, loss: Loss, weights: str, subsample: float) -> Table:
        """Return how a table's columns are used, of which one may say how often a record counts."""
        bounds = {name: bound for name, bound in schema.bounds.items() if name != weights}
        columns = tuple(place for place, name in enumerate(schema.features) if name != weights)
        if not weights:
            return cls(schema, columns, loss, subsample=subsample)
        place, heaviest = schema.features.index(weights), float(schema.bounds[weights][1])
        return cls(replace(schema, bounds=bounds), columns, loss, place, heaviest, subsample)

    def learned(self, examples: Examples) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
        """Return (rows,) whether a record has target and weight; both, the weight as a share of the most it can be.

        Targets are classes, or numbers within their bounds; they and weights are 0 where one of them is missing.
        """
        target, weight = np.asarray(examples.targets, np.float64), np.ones(len(examples))
        if self.weights >= 0:
            weight = np.clip(examples.inputs[:, self.weights] / self.heaviest, 0, 1)
        kept = ~(np.isnan(target) | np.isnan(weight))
        if self.loss.classes:
            kept &= (target >= 0) & (target < self.loss.classes)
        else:
            target = np.clip(target, self.loss.low, self.loss.high)
        return kept, np.where(kept, target, 0.0), np.where(kept, weight, 0.0)


class Records:
    """Records under some bins, with their scores.

    Parameters
    ----------
    table, cells
        How columns are used, and their cells.
    examples
        The records.
    edges, start
        Edges of the bins of numbers; score before the first tree.
    """

    def __init__(self, table: Table, cells: Cells, examples: Examples, edges: list[FloatArray], start: FloatArray):
        self.table, self._start = table, start
        self.codes = cells.encode(examples.inputs[:, table.columns], edges)
        self._kept, self._target, self._weight = table.learned(examples)
        self._content = _content(examples) if table.subsample < 1 else np.zeros(0, np.uint64)
        self.trees = Trees.none()
        self.scores = np.tile(start, (len(examples), 1))
        self._parts: NDArray[np.int32] | None = None
        self._nodes = np.zeros((0, len(examples)), np.int32)
        self._splits = {name: np.zeros((0, 0)) for name in WAYS}

    def move_to(self, trees: Trees) -> None:
        """Take the scores to other trees; where the known ones are the first of them, only the others are added."""
        known = {name: getattr(self.trees, name) for name in (*WAYS, "value")}
        if not all(np.array_equal(rows, getattr(trees, name)[: len(rows)]) for name, rows in known.items()):
            self.scores, self.trees, self._parts = np.tile(self._start, (len(self.codes), 1)), Trees.none(), None
        for number in range(len(self.trees.root), len(trees.root)):
            self.scores[:, number % self.scores.shape[1]] += trees.value[self._leaves(trees, number)]
            self._parts = None
        self.trees = trees

    def histograms(self, trees: Trees, asked: IntArray, firsts: IntArray, cells: int, cap: int, seed: int) -> IntArray:
        """Return (asked, cells, 3) the histograms of some nodes of the trees of the iteration that is growing."""
        places = np.full(len(trees.feature), -1, np.int64)
        places[asked] = np.arange(len(asked))
        out, parts, kept = np.zeros((len(asked), cells, 3), np.int64), self._derivatives(cap), self._drawn(seed)
        for output, nodes in enumerate(self._nodes_of(trees)):
            own = parts[:, 2 * output : 2 * output + 2]
            add_up(self.codes, firsts, nodes, trees.feature, trees.child, trees.left, places, kept, own, out)
        return out

    def _nodes_of(self, trees: Trees) -> NDArray[np.int32]:
        """Return (outputs, rows) a node on each record's way through the trees that grow: the last, or the root."""
        roots = trees.root[-self.scores.shape[1] :]
        now = {name: getattr(trees, name)[roots[0] :] for name in WAYS[1:]} | {"root": roots}
        before, size = self._splits, len(self._splits["child"])
        split = before["child"] >= 0
        goes_on = size <= len(now["child"]) and np.array_equal(before["root"], roots)
        if not goes_on or not all(np.array_equal(before[n][split], now[n][:size][split]) for n in WAYS[1:]):
            self._nodes = np.repeat(roots[:, None], len(self.codes), axis=1)
        self._splits = now
        return self._nodes

    def _derivatives(self, cap: int) -> NDArray[np.int32]:
        """Return gradients and curvatures at the scores, which all levels of an iteration share."""
        if self._parts is None:
            self._parts = self.table.loss.parts(self.scores, self._target, self._weight, cap)
        return self._parts

    def _drawn(self, seed: int) -> NDArray[np.bool_]:
        """Return (rows,) whether the iteration learns from each record."""
        if self.table.subsample == 1:
            return self._kept
        of_iteration = np.uint64(seed_for(seed, purpose="rows", round_number=1 + len(self.trees.root)))
        return np.asarray(
            self._kept & (_mixed(self._content ^ of_iteration) < np.uint64(self.table.subsample * 2.0**64))
        )

    def _leaves(self, trees: Trees, number: int) -> NDArray[np.int32]:
        out = np.empty(len(self.codes), np.int32)
        route(self.codes, int(trees.root[number]), trees.feature, trees.child, trees.left, out)
        return out


class Scores:
    """The records that a process has been asked for, found again by their content.

    Parameters
    ----------
    table, cells
        How columns are used, and their cells.
    """

    def __init__(self, table: Table, cells: Cells) -> None:
        self.table, self.cells = table, cells
        self._known: OrderedDict[bytes, Records] = OrderedDict()

    def of(self, state: State, examples: Examples) -> Records:
        """Return the records under the bins and the start of a state, with the scores that are known of them."""
        key = xxhash.xxh3_128()
        for array in (examples.inputs, examples.targets, state["edges"], state["bins"], state["start"]):
            key.update(np.ascontiguousarray(array).data)
        found = self._known.pop(key.digest(), None)
        if found is None:
            found = Records(self.table, self.cells, examples, edges_of(state), state["start"])
        self._known[key.digest()] = found
        while len(self._known) > 1 and sum(len(each.codes) for each in self._known.values()) > MOST_RECORDS:
            self._known.popitem(last=False)
        return found


def _content(examples: Examples) -> NDArray[np.uint64]:
    """Return (rows,) a number that follows from all cells of a record."""
    mixed = np.zeros(len(examples), np.uint64)
    for column in (*examples.inputs.T, examples.targets):
        values = np.asarray(column, np.float64)
        cells = np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
        mixed = _mixed(mixed ^ (cells + GOLDEN))
    return mixed


def edges_of(state: State) -> list[FloatArray]:
    """Return the edges of the bins of each number."""
    return np.split(state["edges"], np.cumsum(state["bins"])[:-1]) if len(state["bins"]) else []


def grown_trees(state: State) -> Trees:
    """Return the trees of a state without those that are growing, of which nodes are asked for."""
    return Trees.of_state(state).first(len(state["root"]) - (len(state["start"]) if len(state["asked"]) else 0))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, by the finalizer of splitmix64 (Steele, Lea, Flood 2014)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
