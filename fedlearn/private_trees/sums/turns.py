"""Boosting by sums alone: columns take turns, so that nothing is chosen by who sees the records.

Choosing a partition (`boosting`) needs all records in one place. Here everything that depends on them is a sum of whole
numbers, which many nodes can add up: first of targets by the cells of each column's fine grid, then in each round of
gradients and curvatures by the cells of one partition. The rest is post-processing of noisy sums: bins of about as many
records (from the first), the order of the columns (by what the first says that each explains), steps.

Source: boosting of columns in turn is EBM's, Lou et al. 2013 (doi:10.1145/2487575.2487579), privately DP-EBM's, Nori et
al. 2021 (arXiv:2106.09680); pure epsilon, one release for bins and order, and the rest are ours.

*Why it is private*, add or remove one record, geometric noise of whole numbers in units of 2^-20. *First*: a record
lies in one cell of each column, and adds a row of L1 norm 1 there (`Loss.first_of`): the sensitivity is the number of
columns. *Rounds*: it lies in one cell of the partition and adds a row of L1 norm at most 1 (`losses`). The first
release and all rounds compose one after the other. Which partition has its turn, and the score of a record but for its
own codes, follow from what was published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.sums.additive import FloatArray, step_of
from fedlearn.private_trees.sums.bayes import starts_of
from fedlearn.private_trees.sums.boosting import in_records
from fedlearn.private_trees.sums.counting import add_up
from fedlearn.private_trees.sums.losses import UNIT, Logistic, Loss, pairs_of
from fedlearn.private_trees.sums.views import Codes, Views

BINS = 16  # of a numeric column alone
BINS_OF_PAIR = 8
COARSE = 4  # bins of a column of numbers whose cells are looked at together, first
SPREAD_WITHIN = 0.3  # of what is left to the single cells of these, in the spread that steps are expected to have
MOST_OF_PAIR = 9  # cells of a column that is one of a pair
NOISE_ALONE = 1.0  # deviations of the noise that count as nothing
FIRST_SHARE = 0.2  # of epsilon, for the first release
FEWEST_ROUNDS, MOST_ROUNDS = 12, 100
ENOUGH, FALL = 0.1, 0.6  # of epsilon over sqrt(nodes), below which the fewest rounds fall, and how fast
LITTLE = 1000.0  # epsilon times declared records over sqrt(nodes), below which a release of all columns says little
ALONE = 100.0  # epsilon times declared records over sqrt(nodes) that pay for no more than the start
ENDS = 32  # bins of a target whose median is the start
SURE = {True: 5.0, False: 40.0}  # classes, numbers: deviations of noise that the records of the first release must be
SPREAD_OF_FEW = {True: 0.5, False: 0.08}  # that steps are expected to have, where they are not
START_SURE = 10.0  # the same of the start, until which it is asked for again
CURVATURE = 0.2  # of a record, expected where its target is a number

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """The sums of one round, and the variance of the noise on each of them."""

    sums: IntArray
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A way of dividing the records, by one column or by two."""

    columns: tuple[int, ...]
    groups: tuple[IntArray, ...]  # of each column, (codes,) the group of each code of its fine grid
    are_numbers: tuple[bool, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(np.prod([group.max() + 1 for group in self.groups]))

    @property
    def coarser(self) -> IntArray:
        """(cells,) in which of fewer cells each lies: 4 bins of each column of numbers."""
        cell = np.zeros(1, np.int64)
        for group, is_number in zip(self.groups, self.are_numbers, strict=True):
            bins = int(group.max())
            wide = np.append(np.arange(bins) * COARSE // bins, COARSE) if is_number else np.arange(bins + 1)
            cell = (cell[:, None] * (int(wide.max()) + 1) + wide).ravel()
        return cell

    def cell_of(self, codes: Codes) -> IntArray:
        """Return (rows,) the cell of each record."""
        cell = np.zeros(codes.shape[1], np.int64)
        for column, group in zip(self.columns, self.groups, strict=True):
            cell = cell * (int(group.max()) + 1) + group[codes[column]]
        return cell


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """What is asked in which round, and what follows from the answers.

    Parameters
    ----------
    views
        One view of each column.
    loss
        What is minimized.
    pairs
        How many pairs of columns have a turn: of the columns that explain most.
    """

    views: Views
    loss: Loss
    pairs: int
    alone: bool = False  # whether the first round is the only one, and asks for the start

    def length(self, round_number: int) -> int:
        """Return how many numbers a round asks for; of rounds after the first, as many as the largest partition has."""
        if round_number == 1:
            return self._start_width if self.alone else int(starts_of(self.views)[-1]) * self._first_width
        return self._widest * 2 * self.loss.outputs

    def sensitivity(self, round_number: int) -> int:
        """Return what a record adds at most, in the L1 norm."""
        return UNIT * max(len(self.views.sizes), 1) if round_number == 1 and not self.alone else UNIT

    def asked(self, before: Sequence[Released], X: FloatArray, target: FloatArray) -> IntArray:
        """Return what the next round asks for, (length,), of records X (rows, features) and targets (rows,)."""
        return self.asked_by(self.model(before) if before else None, X, target)

    def asked_by(self, model: TurnsModel | None, X: FloatArray, target: FloatArray) -> IntArray:
        """Return the same of the model so far; None before the first round."""
        codes = self.views.encode(X)
        if model is None and not self.alone:
            return self._first_sums(codes, target)
        if model is None or model.asks_start:
            wanted = np.zeros(self.length(1 if model is None else 2), np.int64)
            wanted[: self._start_width] = self._start_sums(target)
            return wanted
        part = model.parts[len(model.steps) % len(model.parts)]
        sums = np.zeros((self._widest, 2 * self.loss.outputs), np.int64)
        add_up(part.cell_of(codes), pairs_of(self.loss, model.score(codes), target), sums)
        return sums.ravel()

    def model(self, released: Sequence[Released]) -> TurnsModel:
        """Return what follows from the sums of the rounds so far, at least one."""
        first = released[0]
        if self.alone:
            start, _ = self._start_of(released)
            return TurnsModel(start, [], [], asks_start=True)
        sums = np.split(in_records(first.sums).reshape(-1, self._first_width), starts_of(self.views)[1:-1])
        variance = first.variance / UNIT**2
        start = self.loss.start(_total(sums))
        parts = self._parts(sums, variance)
        later, records = list(released[1:]), np.inf
        if not self._is_sure(sums, variance):
            start, records = self._start_of([])
            asked = 0
            while asked < len(later) and not self._is_start_sure(later[:asked], records):
                asked += 1
                start, records = self._start_of(later[:asked])
            if not self._is_start_sure(later[:asked], records):
                return TurnsModel(start, parts, [], asks_start=True)
            later = later[asked:]
        model = TurnsModel(start, parts, [])
        for turn, row in enumerate(later):
            part = parts[turn % len(parts)]
            of_cells = in_records(row.sums).reshape(self._widest, -1)[: part.cells]
            noise = row.variance / UNIT**2
            if np.isfinite(records):
                of_cells = self._expected(of_cells, start, records, noise)
                noise /= SPREAD_OF_FEW[self._has_classes] ** 2
            model.steps.append(step_on(part, of_cells, self.loss, noise))
        return model

    def _is_sure(self, sums: list[FloatArray], variance: float) -> bool:
        """Return whether the first release tells records from noise: else it is not used for the start."""
        cells = np.array([len(of_view) for of_view in sums])
        weight = 1 / cells / (1 / cells).sum()  # as in `_total`
        deviation = np.sqrt(self._first_width * variance * (weight**2 * cells).sum())
        return bool(_total(sums).sum() >= SURE[self._has_classes] * deviation)

    def _start_sums(self, target: FloatArray) -> IntArray:
        """Return (start width,) records of each class, or of each bin of a number; a record adds UNIT."""
        if self._has_classes:
            return self.loss.first_sums(target)
        place = np.minimum((target * self._start_width).astype(np.int64), self._start_width - 1)
        return np.bincount(place, minlength=self._start_width) * UNIT

    def _start_of(self, released: Sequence[Released]) -> tuple[FloatArray, float]:
        """Return the start, and how many records there are, of what was released of it; of nothing, as of no record."""
        if not released:
            return self.loss.start(np.zeros(self._first_width)), 0.0
        sums = np.mean([in_records(row.sums[: self._start_width]) for row in released], axis=0)
        if self._has_classes:
            return self.loss.start(sums), float(sums.sum())
        kept = np.where(sums > 2 * self._start_deviation(released), sums, 0.0)
        if not kept.any():
            return np.array([0.5]), 0.0
        left = np.cumsum(kept) - kept
        at = int(np.searchsorted(np.cumsum(kept), kept.sum() / 2))
        return np.array([(at + (kept.sum() / 2 - left[at]) / kept[at]) / len(kept)]), float(kept.sum())

    def _start_deviation(self, released: Sequence[Released]) -> float:
        """Return the deviation of the noise on the mean of what was released of one number of the start."""
        return float(np.sqrt(sum(row.variance for row in released)) / len(released) / UNIT)

    def _is_start_sure(self, released: Sequence[Released], records: float) -> bool:
        return bool(released) and records >= START_SURE * self._start_deviation(released)

    def _expected(self, sums: FloatArray, start: FloatArray, records: float, variance: float) -> FloatArray:
        """Return sums whose curvatures are drawn to what so many records would have, if they were spread evenly.

        A curvature that is noise would be taken for that of records, and the noise of its gradient for a step.
        """
        of_one = self.loss.derivatives(start[None, :], np.zeros(1))[1][0] if self._has_classes else CURVATURE
        usual = np.maximum(records * np.broadcast_to(of_one, self.loss.outputs) / len(sums), 1e-9)
        drawn = sums.copy()
        found = sums[:, self.loss.outputs :]
        drawn[:, self.loss.outputs :] = usual + (found - usual) * usual**2 / (usual**2 + variance)
        return drawn

    def _first_sums(self, codes: Codes, target: FloatArray) -> IntArray:
        rows = self.loss.first_of(target)
        sums = []
        for code, size in zip(codes, self.views.sizes.tolist(), strict=True):
            of_view = np.zeros((size + 1, self._first_width), np.int64)
            add_up(code.astype(np.int64), rows, of_view)
            sums.append(of_view)
        return np.concatenate(sums).ravel()

    def _parts(self, sums: list[FloatArray], variance: float) -> list[Part]:
        """Return the partitions in their turns: columns, the best first; a pair after the columns that it is of."""
        alone, coarse, gains = [], [], []
        for column, (of_view, edges) in enumerate(zip(sums, self.views.edges, strict=True)):
            counts = of_view.sum(axis=1)
            noise = variance * of_view.shape[1]
            fine = np.arange(len(counts))
            alone.append(fine if edges is None else grouped(counts, BINS, noise))
            coarse.append(fine if edges is None else grouped(counts, BINS_OF_PAIR, noise))
            gains.append(gain_of(of_view, alone[column], variance))
        numeric = [edges is not None for edges in self.views.edges]
        order = np.argsort(-np.array(gains), kind="stable").tolist()
        kept = [column for column in order if gains[column] > 0] or order[:1]
        small = [column for column in kept if coarse[column].max() < MOST_OF_PAIR]
        ranked = sorted(combinations(range(len(small)), 2), key=lambda pair: (pair[1], pair[0]))[: self.pairs]
        parts = []
        for column in kept:
            parts.append(Part((column,), (alone[column],), (numeric[column],)))
            for a, b in ((small[a], small[b]) for a, b in ranked if small[b] == column):
                parts.append(Part((a, b), (coarse[a], coarse[b]), (numeric[a], numeric[b])))
        return parts

    @property
    def _has_classes(self) -> bool:
        return isinstance(self.loss, Logistic)

    @property
    def _start_width(self) -> int:
        """Numbers of which the start follows: one for each class, or bins of a number, as many as fit into a round."""
        return self._first_width if self._has_classes else min(ENDS, self._widest * 2 * self.loss.outputs)

    @property
    def _first_width(self) -> int:
        return self.loss.first_width

    @property
    def _widest(self) -> int:
        """Cells of the largest partition that there may be."""
        sizes = [
            BINS if edges is not None else int(size)
            for size, edges in zip(self.views.sizes, self.views.edges, strict=True)
        ]
        return max([size + 1 for size in sizes] + [MOST_OF_PAIR**2] * (self.pairs > 0))


@dataclass(frozen=True, slots=True, eq=False)
class TurnsModel:
    """An additive model; the step of a turn is that of its partition."""

    start: FloatArray  # (outputs,)
    parts: list[Part]  # in the order of their turns, which begins again
    steps: list[FloatArray]  # of each turn so far (cells, outputs)
    asks_start: bool = False  # whether the next round asks for the start, in place of a turn

    def score(self, codes: Codes) -> FloatArray:
        """Return (rows, outputs) scores of codes (views, rows)."""
        total = np.tile(self.start, (codes.shape[1], 1))
        for turn, step in enumerate(self.steps):
            total += step[self.parts[turn % len(self.parts)].cell_of(codes)]
        return total


def step_on(part: Part, released: FloatArray, loss: Loss, variance: float) -> FloatArray:
    """Return (cells, outputs) the step of released sums (cells, 2 outputs): one on coarser cells, and what is left.

    Neighbors are alike: what many cells say together is less noisy. Post-processing, as `step_of` is.
    """
    coarser = part.coarser
    pooled = np.zeros((int(coarser.max()) + 1, released.shape[1]))
    np.add.at(pooled, coarser, released)
    of_pool = np.bincount(coarser)
    first = np.zeros((len(pooled), loss.outputs))
    for size in np.unique(of_pool):
        here = of_pool == size
        first[here] = step_of(pooled[here], loss, variance * size)
    curvature = np.maximum(released[:, loss.outputs :] * loss.curvature_in, 0.0)
    left = released.copy()
    left[:, : loss.outputs] -= curvature * first[coarser] / loss.unit / loss.gradient_in
    return np.asarray(first[coarser] + step_of(left, loss, variance / SPREAD_WITHIN**2))


def is_little(epsilon: float, nodes: int, declared: int | None = None) -> bool:
    """Return whether the noise of so many nodes leaves little of what one release of all columns would say.

    `declared`: most records that all nodes hold together.
    """
    budget = epsilon / math.sqrt(nodes)
    return budget < ENOUGH if declared is None else budget * declared < LITTLE


def rounds_for(epsilon: float, nodes: int, declared: int | None = None) -> int:
    """Return how many rounds a budget is worth, if so many nodes add noise of their own each.

    The noise of m nodes is that of one at epsilon / sqrt(m). How the rule was found: README of this folder.

    Parameters
    ----------
    declared
        Most records that all nodes hold together; where noise leaves nothing of them but the start, one round is all.

    >>> [rounds_for(1.0, 1), rounds_for(1.0, 25), rounds_for(8.0, 1), rounds_for(0.1, 25), rounds_for(0.1, 25, 1000)]
    [15, 12, 38, 5, 1]
    """
    budget = epsilon / math.sqrt(nodes)
    if declared is not None and budget * declared < ALONE:
        return 1
    fewest = max(round(FEWEST_ROUNDS * min(budget / ENOUGH, 1.0) ** FALL), 2)
    return int(min(max(round(15 * budget**0.45), fewest), MOST_ROUNDS))


def grouped(counts: FloatArray, bins: int, variance: float) -> IntArray:
    """Return (codes,) to which of at most so many groups each belongs: neighbors, about as many records in each.

    Counts that noise alone explains count as nothing. The last code, of what is missing, is a group of its own.

    >>> grouped(np.array([90.0, 1.0, 60.0, 40.0, 7.0]), 2, variance=4.0).tolist()
    [0, 0, 1, 1, 2]
    """
    kept = np.where(counts[:-1] > NOISE_ALONE * np.sqrt(variance), counts[:-1], 0.0)
    if not kept.any():
        kept = np.ones_like(kept)
    middle = np.cumsum(kept) - kept / 2
    return np.append(np.minimum((middle / kept.sum() * bins).astype(np.int64), bins - 1), bins)


def gain_of(sums: FloatArray, group: IntArray, variance: float) -> float:
    """Return how much a column explains by itself, beyond what noise would: of noisy sums (codes, width)."""
    of_group = np.zeros((int(group.max()) + 1, sums.shape[1]))
    np.add.at(of_group, group, sums)
    noise = np.sqrt(variance * np.bincount(group, minlength=len(of_group)))
    counts = of_group.sum(axis=1)
    share = np.maximum(sums.sum(axis=0), 0.0) / max(float(counts.sum()), 1.0)
    apart = np.abs(of_group - counts[:, None] * share)
    return float(np.maximum(apart - NOISE_ALONE * noise[:, None], 0.0).sum())


def _total(sums: list[FloatArray]) -> FloatArray:
    """Return the sums of all records: the mean over the columns, each by how little noise its cells add up to."""
    weights = np.array([1.0 / len(of_view) for of_view in sums])
    return np.asarray(np.average([of_view.sum(axis=0) for of_view in sums], axis=0, weights=weights))
