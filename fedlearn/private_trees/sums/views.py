"""Views of columns: codes on declared grids; every value, missing or not, has one code in each view of its column.

A numeric column has a view on an even grid between its declared bounds, of the logarithm if the bounds are logarithmic.
With linear bounds it has a second view, whose steps grow from the lower bound, which suits heavy tails (capital gains,
counts). A categorical column has a view of its categories. Grids have a power of two of bins, so a coarser grid is a
shift of the code. A missing or undeclared value has the code after the last bin: a bin of its own on every coarser
grid, too. Codes depend on the declaration and the value alone, so they cost no privacy.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.declared_input import by_position, positions
from fedlearn.private_trees.domain import Bounds, Domain, NotPrivateWarning, finite_range
from fedlearn.private_trees.table_cells import columns_of, numbers_of

BINS = 32  # of a numeric view; a power of two
PRIVATE_BINS = 16  # of a view whose bins are private; a power of two
FINE = 64  # bins of a numeric column with a single view
TAIL = 4096.0  # width of the bounds over the first step of the growing grid
Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The declared columns, and the grids of their views.

    >>> views = Views.declare(2, bounds={0: (0, 32)}, categories={1: ["a", "b"]})
    >>> views.feature.tolist(), views.sizes.tolist()
    ([0, 0, 1], [32, 32, 2])
    >>> views.encode(np.array([[1.5, "b"], [np.nan, "c"]], object))[[0, 2]].tolist()
    [[1, 32], [1, 2]]
    """

    feature: NDArray[np.int64]  # (views,) the column
    sizes: NDArray[np.int64]  # (views,) number of codes of values; missing values have the next code
    edges: tuple[
        NDArray[np.float64] | None, ...
    ]  # (views,) ascending edges, a value on an edge is in the lower bin; None: categories
    categories: tuple[tuple[object, ...] | int, ...]  # (features,) 0 = numeric
    low: NDArray[np.float64]  # (features,)
    high: NDArray[np.float64]
    is_declared: bool = True  # False: read from the data, so it is not private

    @classmethod
    def declare(
        cls,
        num_features: int,
        *,
        bounds: Bounds | None,
        categories: Any,
        names: Sequence[str] | None = None,
        one_each: bool = False,
    ) -> Views:
        """Return the views of declared columns.

        Parameters
        ----------
        num_features
            Number of columns.
        bounds, names
            As in `Domain.declare`.
        categories
            Categories of each categorical column, or their number, by name or position, or one entry for each column.
        one_each
            Whether a numeric column has a single view, with the edges of both grids.
        """
        listed = [_frozen(each) for each in by_position(categories, num_features, names, "categories")]
        counts = [each if isinstance(each, int) else len(each) for each in listed]
        if max(counts, default=0) >= MISSING:
            raise ValueError(f"categories: a column has {max(counts)}; at most {MISSING - 1} are supported")
        domain = Domain.declare(num_features=num_features, bounds=bounds, categories=counts, feature_names=names)
        return cls._of(domain, listed, one_each=one_each)

    @classmethod
    def from_data(cls, X: Any, *, categories: Any, names: Sequence[str] | None, one_each: bool = False) -> Views:
        """Return views of columns whose bounds or categories are read from the data: *not private*."""
        warnings.warn(
            "bounds_from_data=True reads bounds and categories from the data: the result is not differentially private",
            NotPrivateWarning,
            stacklevel=4,
        )
        columns = columns_of(X)
        listed = [_frozen(each) for each in by_position(categories, len(columns), names, "categories")]
        pairs = []
        for feature, column in enumerate(columns):
            try:
                low, high = finite_range(numbers_of(column)[:, None])
                pairs.append((float(low[0]), float(high[0])))
            except (TypeError, ValueError):
                pairs.append((0.0, 1.0))
                known = sorted({value for value in column.tolist() if value == value and value is not None}, key=str)
                listed[feature] = listed[feature] or tuple(known[: MISSING - 1])
        counts = [each if isinstance(each, int) else len(each) for each in listed]
        domain = Domain.declare(num_features=len(columns), bounds=pairs, categories=counts)
        return cls._of(domain, listed, one_each=one_each, is_declared=False)

    @classmethod
    def _of(
        cls, domain: Domain, listed: Sequence[tuple[object, ...] | int], *, one_each: bool, is_declared: bool = True
    ) -> Views:
        feature: list[int] = []
        edges: list[NDArray[np.float64] | None] = []
        for column in range(domain.num_features):
            grids = [None] if domain.categories[column] else _grids(domain, column, one_each=one_each)
            feature += [column] * len(grids)
            edges += grids
        sizes = [
            int(domain.categories[column]) if grid is None else len(grid) + 1
            for column, grid in zip(feature, edges, strict=True)
        ]
        of_view = np.array(feature, np.int64), np.array(sizes, np.int64), tuple(edges)
        return cls(*of_view, tuple(listed), domain.low, domain.high, is_declared)

    @property
    def firsts(self) -> list[int]:
        """The first view of each column."""
        return np.flatnonzero(np.diff(self.feature, prepend=-1)).tolist()

    @property
    def of_numbers(self) -> Views:
        """The views of numeric columns alone."""
        kept = np.array([edges is not None for edges in self.edges], np.bool_)
        edges = tuple(each for each in self.edges if each is not None)
        return replace(self, feature=self.feature[kept], sizes=self.sizes[kept], edges=edges)

    def with_edges(self, edges: Mapping[int, NDArray[np.float64]]) -> Views:
        """Return the views with new edges in the first view of each given column; edges may coincide."""
        every, sizes = list(self.edges), self.sizes.copy()
        for view in self.firsts:
            if (column := int(self.feature[view])) in edges:
                every[view], sizes[view] = edges[column], len(edges[column]) + 1
        return replace(self, sizes=sizes, edges=tuple(every))

    def encode(self, X: Any) -> Codes:
        """Return (views, rows) codes of X: a DataFrame, or an array of objects or numbers."""
        columns = columns_of(X)
        codes = np.empty((len(self.feature), len(X)), np.uint8)
        before = -1
        for view, (feature, edges) in enumerate(zip(self.feature.tolist(), self.edges, strict=True)):
            if edges is None:
                codes[view] = self._of_categories(columns[feature], self.categories[feature], int(self.sizes[view]))
                continue
            if feature != before:
                numbers, before = numbers_of(columns[feature], else_missing=True), feature
                missing = np.isnan(numbers)
                within = np.clip(numbers, self.low[feature], self.high[feature])
            codes[view] = np.where(missing, self.sizes[view], np.searchsorted(edges, within, side="left"))
        return codes

    @staticmethod
    def _of_categories(column: Any, categories: tuple[object, ...] | int, size: int) -> Codes:
        if isinstance(categories, tuple):
            return np.minimum(positions(column, categories), size).astype(np.uint8)
        numbers = numbers_of(column, else_missing=True)
        with np.errstate(invalid="ignore"):
            known = (numbers >= 0) & (numbers < size) & (numbers == np.floor(numbers))
        return np.where(known, numbers, size).astype(np.uint8)


def _grids(domain: Domain, column: int, *, one_each: bool) -> list[NDArray[np.float64] | None]:
    low, high = float(domain.low[column]), float(domain.high[column])
    if domain.scale[column] == "log":
        return [np.geomspace(low, high, (FINE if one_each else BINS) + 1)[1:-1]]
    even = np.linspace(low, high, BINS + 1)[1:-1]
    tail = low + np.geomspace((high - low) / TAIL, high - low, BINS)[:-1]
    if one_each:
        return [np.unique(np.concatenate([even, tail]))]
    return [even, tail]


def _frozen(categories: Any) -> tuple[object, ...] | int:
    if categories is None:
        return 0
    return int(categories) if isinstance(categories, int | np.integer) else tuple(categories)
