"""Cyclic boosting by sums alone: rounds go through the columns in a fixed order, so no choice looks at records.

Choosing a partition (`boosting`) needs all records in one place. Here every release is a sum of integers, which many
nodes can add up: in round 1 sums of targets over the cells of each column's fine grid, in each later round sums of
gradients and curvatures over the cells of one part (a column, or two). The rest is post-processing of noisy sums
(`parts`): from round 1 bins of about equally many records and the order of the columns, by how much each explains; from
later rounds their steps.

Source: cyclic boosting of columns is EBM's, Lou et al. 2013 (doi:10.1145/2487575.2487579), privately DP-EBM's, Nori et
al. 2021 (arXiv:2106.09680). Ours: pure epsilon, one release for bins and order, sums alone.

*Why it is private*, add or remove one record, geometric noise on integers in units of 2^-20. *Round 1*: a record lies
in one cell of each column, and adds a row of L1 norm 1 there (`Loss.first_of`): the sensitivity is the number of
columns. *Later rounds*: a record lies in one cell of the part and adds a row of L1 norm at most 1 (`losses`). All
rounds compose sequentially. The part of a round, and the score of a record apart from its own codes, follow from
published sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedlearn.privacy.released import Released
from fedlearn.private_trees.sums.additive import FloatArray
from fedlearn.private_trees.sums.bayes import starts_of
from fedlearn.private_trees.sums.boosting import in_records
from fedlearn.private_trees.sums.boosting_parts import IntArray, Part, largest_part, parts_of, step_on
from fedlearn.private_trees.sums.counting import add_up
from fedlearn.private_trees.sums.losses import UNIT, Logistic, Loss, pairs_of
from fedlearn.private_trees.sums.views import Codes, Views

FIRST_SHARE = 0.2  # of epsilon, for the first release
ENDS = 32  # bins of a numeric target, whose median is the start
SURE = {True: 5.0, False: 40.0}
"""Least ratio of the records in round 1 to the standard deviation of their noise, for a start from round 1; by whether
the target has classes."""
START_SURE = 10.0  # the same ratio for releases of the start alone; below it, the start is asked for again
SPREAD_OF_FEW = {True: 0.5, False: 0.08}
"""Expected spread of steps if the start comes from later rounds; by whether the target has classes."""
CURVATURE = 0.2  # expected curvature of a record with a numeric target


@dataclass(frozen=True, slots=True, eq=False)
class CyclicBoosting:
    """The sums of each round, and the model that follows from them.

    Parameters
    ----------
    views
        One view of each column.
    loss
        Loss to minimize.
    pairs
        Number of pairs of columns among the parts, of the columns that explain most.
    alone
        Whether round 1 is the only round, and asks for the start alone.
    """

    views: Views
    loss: Loss
    pairs: int
    alone: bool = False

    def length(self, round_number: int) -> int:
        """Return the number of sums of a round; after round 1, enough for the largest part."""
        if round_number == 1:
            return self._start_width if self.alone else int(starts_of(self.views)[-1]) * self._first_width
        return self._widest * 2 * self.loss.outputs

    def sensitivity(self, round_number: int) -> int:
        """Return the largest contribution of a record to the sums of a round, in the L1 norm."""
        return UNIT * max(len(self.views.sizes), 1) if round_number == 1 and not self.alone else UNIT

    def asked(self, before: Sequence[Released], X: FloatArray, target: FloatArray) -> IntArray:
        """Return (length,) the sums of the next round, of records X (rows, features) and targets (rows,)."""
        return self.asked_by(self.model(before) if before else None, X, target)

    def asked_by(self, model: CyclicModel | None, X: FloatArray, target: FloatArray) -> IntArray:
        """Return (length,) the sums of the next round, from the model so far; None before round 1."""
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

    def model(self, released: Sequence[Released]) -> CyclicModel:
        """Return the model that follows from the sums of the rounds so far, at least one."""
        first = released[0]
        if self.alone:
            start, _ = self._start_of(released)
            return CyclicModel(start, [], [], asks_start=True)
        sums = np.split(in_records(first.sums).reshape(-1, self._first_width), starts_of(self.views)[1:-1])
        variance = first.variance / UNIT**2
        start = self.loss.start(_total(sums))
        parts = parts_of(sums, self.views, variance, pairs=self.pairs)
        later, records = list(released[1:]), np.inf
        if not self._is_sure(sums, variance):
            start, records = self._start_of([])
            asked = 0
            while asked < len(later) and not self._is_start_sure(later[:asked], records):
                asked += 1
                start, records = self._start_of(later[:asked])
            if not self._is_start_sure(later[:asked], records):
                return CyclicModel(start, parts, [], asks_start=True)
            later = later[asked:]
        model = CyclicModel(start, parts, [])
        for at, row in enumerate(later):
            part = parts[at % len(parts)]
            of_cells = in_records(row.sums).reshape(self._widest, -1)[: part.cells]
            noise = row.variance / UNIT**2
            if np.isfinite(records):
                of_cells = self._expected(of_cells, start, records, noise)
                noise /= SPREAD_OF_FEW[self._has_classes] ** 2
            model.steps.append(step_on(part, of_cells, self.loss, noise))
        return model

    def _is_sure(self, sums: list[FloatArray], variance: float) -> bool:
        """Return whether the records in round 1 stand out from its noise; else the start is not taken from them."""
        cells = np.array([len(of_view) for of_view in sums])
        weight = 1 / cells / (1 / cells).sum()  # as in `_total`
        deviation = np.sqrt(self._first_width * variance * (weight**2 * cells).sum())
        return bool(_total(sums).sum() >= SURE[self._has_classes] * deviation)

    def _start_sums(self, target: FloatArray) -> IntArray:
        """Return (start width,) records of each class, or of each bin of a numeric target; a record adds UNIT."""
        if self._has_classes:
            return self.loss.first_sums(target)
        place = np.minimum((target * self._start_width).astype(np.int64), self._start_width - 1)
        return np.bincount(place, minlength=self._start_width) * UNIT

    def _start_of(self, released: Sequence[Released]) -> tuple[FloatArray, float]:
        """Return the start and the number of records from the releases of the start; without any, 0 records."""
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
        """Return the standard deviation of the noise on one number of the start, averaged over its releases."""
        return float(np.sqrt(sum(row.variance for row in released)) / len(released) / UNIT)

    def _is_start_sure(self, released: Sequence[Released], records: float) -> bool:
        return bool(released) and records >= START_SURE * self._start_deviation(released)

    def _expected(self, sums: FloatArray, start: FloatArray, records: float, variance: float) -> FloatArray:
        """Return the sums, their curvatures shrunk towards the curvature of `records` evenly spread records.

        Otherwise a curvature of pure noise would look like records, and the noise of its gradient would become a step.
        """
        of_one = self.loss.derivatives(start[None, :], np.zeros(1))[1][0] if self._has_classes else CURVATURE
        usual = np.maximum(records * np.broadcast_to(of_one, self.loss.outputs) / len(sums), 1e-9)
        shrunk = sums.copy()
        found = sums[:, self.loss.outputs :]
        shrunk[:, self.loss.outputs :] = usual + (found - usual) * usual**2 / (usual**2 + variance)
        return shrunk

    def _first_sums(self, codes: Codes, target: FloatArray) -> IntArray:
        rows = self.loss.first_of(target)
        sums = []
        for code, size in zip(codes, self.views.sizes.tolist(), strict=True):
            of_view = np.zeros((size + 1, self._first_width), np.int64)
            add_up(code.astype(np.int64), rows, of_view)
            sums.append(of_view)
        return np.concatenate(sums).ravel()

    @property
    def _has_classes(self) -> bool:
        return isinstance(self.loss, Logistic)

    @property
    def _start_width(self) -> int:
        """Number of sums for the start: one for each class, or for each bin of a numeric target."""
        return self._first_width if self._has_classes else min(ENDS, self._widest * 2 * self.loss.outputs)

    @property
    def _first_width(self) -> int:
        return self.loss.first_width

    @property
    def _widest(self) -> int:
        return largest_part(self.views, pairs=self.pairs)


@dataclass(frozen=True, slots=True, eq=False)
class CyclicModel:
    """An additive model of steps on parts, in a cycle."""

    start: FloatArray  # (outputs,)
    parts: list[Part]  # in the order of their rounds; the cycle then begins again
    steps: list[FloatArray]  # of each round so far, (cells, outputs) on its part
    asks_start: bool = False  # whether the next round asks for the start, not for a step

    def score(self, codes: Codes) -> FloatArray:
        """Return (rows, outputs) scores of codes (views, rows)."""
        total = np.tile(self.start, (codes.shape[1], 1))
        for at, step in enumerate(self.steps):
            total += step[self.parts[at % len(self.parts)].cell_of(codes)]
        return total


def _total(sums: list[FloatArray]) -> FloatArray:
    """Return the sums over all records: the mean over the columns, weighted by their totals' inverse variances."""
    weights = np.array([1.0 / len(of_view) for of_view in sums])
    return np.asarray(np.average([of_view.sum(axis=0) for of_view in sums], axis=0, weights=weights))
