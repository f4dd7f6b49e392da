"""Analyses: models of exact sums in one or several rounds, whose answer is that of all records in one table.

*Whole numbers.* Each sum has a public bound on what one record adds to it, a power of two: its scale. A record's
part is divided by that bound, multiplied by `cap` and rounded; nodes add up whole numbers. So the sum does not depend
on the order of records or nodes, nor on masks, and its rounding error has a standard deviation of at most
sqrt(n / 12) * scale / cap for n records. `cap` is the largest power of two with which no sum of ``rounds.cohort`` nodes
of ``gate.max_examples`` records leaves 2^62: 2^34 for ten nodes by default. No sum can overflow, in any round: where
coefficients let a record weigh more, its scale grows, and what that costs in precision is compared with the standard
errors (`fedlearn.statistics.newton`).

*Rounds.* What a round asks follows from the sums of the rounds before, which the state holds. `finished` says after
which round the answer is there, or why there is none. All rounds must be sums over as many nodes: where one leaves, two
sums would tell what it had added.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused, RunFailed, UsageError
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Layout, State, layout_of
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation, Finished
from fedlearn.models.models_of_tables import table_of
from fedlearn.models.sums import ExactSums, SumsModel, check_layout, check_size
from fedlearn.plugins.options import options_for
from fedlearn.runs.analysis_answers import Answer
from fedlearn.statistics.design import Declared, FloatArray, IntArray

BITS = 61  # of the largest sum of all nodes, without its sign
MOST_BITS = 52  # of what one record adds: more than a float64 has mean nothing
BLOCK = 1024  # records whose parts are rounded at once: they stay in the cache


class Analysis(SumsModel):
    """Base class of the analyses: sums by rounds, and the answer that they tell.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    """

    metrics = Metrics((), ())
    name: ClassVar[str] = ""  # in the table of models
    not_taken: ClassVar[tuple[str, ...]] = ()  # parameters that are no options

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self.declared = Declared(schema)

    @classmethod
    def of(cls, spec: DataSpec, options: Mapping[str, Any]) -> Self:
        """Return the analysis of a data set, with the user's options; raise `SettingError` for others."""
        given = options_for(cls, options, setting="model.options", reserved=("schema", *cls.not_taken))
        return cls(table_of(cls.name, spec, of_one_target=False), **given)

    @abstractmethod
    def fit(self, tables: Sequence[Examples]) -> Answer:
        """Return the answer for tables in one place: each is what one node would hold."""

    @abstractmethod
    def answer(self, state: State) -> Answer:
        """Return the answer that the sums tell."""

    def progress(self, state: State) -> Finished:
        """Return whether the sums so far tell the answer; of an analysis in one round, they do."""
        return Finished("all sums are there")

    def finished(self, state: State) -> Finished:
        """Return why no further round is needed, or possible; nothing as long as there is one."""
        return self.progress(state) if len(state["reports"]) else Finished()

    def fitted(self, state: State) -> Answer:
        """Return the answer that a run has found.

        Raises
        ------
        UsageError
            If no round was committed, or if there is no answer, with the reason.
        """
        if not len(state["reports"]):
            raise UsageError("no round was committed: there is nothing to read")
        if (ended := self.finished(state)).is_failure or not ended.why:
            raise UsageError(ended.why or f"{self.name}: it has not converged after {len(state['reports'])} rounds")
        return self.answer(state)

    def analysis(self, state: State) -> Mapping[str, object]:
        """Return the answer as plain values for the result of the run."""
        return self.fitted(state).to_plain()

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return no metric: an analysis is no prediction."""
        return Evaluation({}, len(examples))


class Exact(ExactSums, Analysis):
    """Base class of analyses with exact sums: sums of whole numbers, over the same nodes in all rounds."""

    least_count = 1  # of records in a cell that is shown (`fedlearn.statistics.small_cells`)

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self._settle(RunConfig().largest_cohort, RunConfig().gate.max_examples)

    def planned(self, config: RunConfig) -> Self:
        """Return the analysis of a run with these settings."""
        planned = super().planned(config)
        planned._settle(config.largest_cohort, config.gate.max_examples)
        return planned

    def _settle(self, nodes: int, largest_node: int) -> None:
        """Take the most nodes of a sum and the most records of a node, which decide how finely sums are rounded."""
        self.cap, self.largest_node = cap_of(nodes, largest_node), largest_node

    def finished(self, state: State) -> Finished:
        """Return why no further round is needed, or possible; nothing as long as there is one."""
        left = self.left(state)
        return left if left.why else super().finished(state)

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums of a round in the L1 norm."""
        return self.cap * self.length(round_number)

    def most_of_one(self, round_number: int) -> int:
        """Return the most that a record adds to a single sum."""
        return self.cap

    def length_after(self, before: Layout) -> int:
        """Return the number of sums in a report on a state of this layout."""
        return self.length(before["reports"].size + 1)

    def rounds(self, state: State) -> list[IntArray]:
        """Return the sums of each round so far, as whole numbers."""
        return [released.sums for released in self.released(state)]

    def fit(self, tables: Sequence[Examples]) -> Answer:
        """Return the answer for tables in one place: each is what one node would hold.

        Raises
        ------
        RunFailed
            If there is none, with the reason.
        """
        self._settle(len(tables), max([1, *map(len, tables)]))
        state = self.initial_state(seed=0)
        while not (ended := self.finished(state)).why:
            sums = np.sum([self.asked(state, each) for each in tables], axis=0)
            reports = np.append(state["reports"], len(tables))
            state = {"sums": np.concatenate([state["sums"], sums]), "reports": reports}
        if ended.is_failure:
            raise RunFailed(ended.why)
        return self.answer(state)

    def check_state(self, state: State) -> None:
        """Raise `Refused` for a state that no honest server sends."""
        check_layout(layout_of(state), self._layout_after(np.size(state.get("reports", ()))))
        if len(state["reports"]) and state["reports"].min() < 1:
            raise Refused("wrong-count", f"{state['reports'].min()} reports in a round")
        check_size(state["sums"], 1 << BITS)
        if self.finished(state).is_failure:
            raise Refused("wrong-count", "the sums before have no answer, or are of other clients")

    def _variance(self, round_number: int) -> float:
        return 0.0


def cap_of(nodes: int, largest_node: int) -> int:
    """Return the whole number that stands for the most that a record adds to a sum.

    >>> cap_of(10, 10_000_000) == 2**34
    True
    """
    return 1 << max(min(BITS - (nodes * largest_node).bit_length(), MOST_BITS), 0)


def power_of_two(bound: FloatArray | float) -> FloatArray:
    """Return the least powers of two that are as large as some bounds.

    >>> power_of_two(np.array([0.3, 1.0, 5.0])).tolist()
    [0.5, 1.0, 8.0]
    """
    return np.asarray(np.exp2(np.ceil(np.log2(np.maximum(bound, 2.0**-40)))))


def whole(parts: FloatArray, scales: FloatArray, cap: int) -> IntArray:
    """Return what each record adds, as whole numbers: (rows, sums) divided by the scales, times the cap, rounded."""
    return np.rint(parts * (cap / scales)).astype(np.int64)


def blocks(rows: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield slices of at most as many rows."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def products(matrix: FloatArray) -> FloatArray:
    """Return (rows, q (q + 1) / 2) the products of each two columns of a matrix of q, once each."""
    first, second = np.triu_indices(matrix.shape[1])
    return np.asarray(matrix[:, first] * matrix[:, second])


def symmetric(products: FloatArray, size: int) -> FloatArray:
    """Return (..., size, size) matrices of their (..., size (size + 1) / 2) upper triangles.

    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    first, second = np.triu_indices(size)
    matrix = np.zeros((*products.shape[:-1], size, size))
    matrix[..., first, second] = matrix[..., second, first] = products
    return matrix
