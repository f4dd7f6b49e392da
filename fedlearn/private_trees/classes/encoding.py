"""Features as category codes: declared categories, or declared bin edges for numbers.

The code of a value depends on the value and the declaration alone, so encoding costs no privacy. A missing value, an
undeclared category and a number without a bin become MISSING.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.private_trees.binning import MISSING
from fedlearn.private_trees.classes.class_counting import IntArray
from fedlearn.private_trees.declared_input import Features, by_position, positions
from fedlearn.private_trees.domain import Bounds, NotPrivateWarning, bound_of_features, checked_bound
from fedlearn.private_trees.table_cells import columns_of, is_missing, is_numeric, numbers_of

Feature = int | Sequence[object]
"""Number of categories, coded 0 .. k - 1, or the list of the categories."""
EVEN_BINS = 8  # between declared bounds; a linear range has more at its lower end
QUANTILE_BINS = 8  # of a numeric column whose bins are read from the data, which is not private


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of each column: its categories, or its bin edges.

    >>> encoding = Encoding.declare(2, categories={0: ["a", "b"]}, bins={1: [0.5]})
    >>> encoding.encode(np.array([["b", 0.7], [None, 0.5]], object)).tolist()
    [[1, 1], [255, 0]]
    """

    categories: tuple[tuple[object, ...] | int | None, ...]  # for each feature; None if it has bins
    edges: tuple[tuple[float, ...] | None, ...]  # for each feature, ascending; a value on an edge is in the lower bin
    is_declared: bool = True  # False: read from the data, so it is not private

    @classmethod
    def declare(
        cls,
        num_features: int,
        *,
        categories: Features | None,
        bins: Mapping[str | int, Sequence[float]] | None,
        bounds: Bounds | None = None,
        names: Sequence[str] | None = None,
    ) -> Encoding:
        """Return the declared encoding; every feature needs categories, bins or bounds, by name or position."""
        listed = by_position(categories, num_features, names, "categories")
        edges = by_position(bins, num_features, names, "bins")
        for feature, bound in enumerate(bound_of_features(bounds, num_features, names)):
            if bound is not None and listed[feature] is None and edges[feature] is None:
                edges[feature] = edges_between(*checked_bound(bound, f"bounds of feature {feature}"))
        for feature in range(num_features):
            name = feature if names is None else names[feature]
            if (listed[feature] is None) == (edges[feature] is None):
                raise ValueError(
                    f"feature {name!r} needs categories=, or bins= or bounds= if it is numeric (one of the two); they "
                    "must come from public knowledge; bounds_from_data=True takes them from the data: not private"
                )
            _check(name, listed[feature], edges[feature])
        return cls(tuple(_frozen(one) for one in listed), tuple(_frozen_edges(one) for one in edges))

    @classmethod
    def from_data(cls, X: Any) -> Encoding:
        """Return an encoding read from the data, with a warning: *not private*, no epsilon covers it."""
        warnings.warn(
            "bounds_from_data=True reads categories and bins from the data: the result is not differentially private",
            NotPrivateWarning,
            stacklevel=4,
        )
        categories: list[tuple[object, ...] | int | None] = []
        edges: list[tuple[float, ...] | None] = []
        for column in columns_of(X):
            present = [value for value in column.tolist() if not is_missing(value)]
            distinct = sorted(set(present), key=lambda value: (str(type(value)), value))
            if len(distinct) <= 2 * QUANTILE_BINS or not is_numeric(column):
                categories.append(tuple(distinct[:MISSING]) or 1)
                edges.append(None)
            else:
                inner = np.linspace(0, 1, QUANTILE_BINS + 1)[1:-1]
                categories.append(None)
                edges.append(tuple(np.unique(np.quantile(np.asarray(present, np.float64), inner)).tolist()))
        return cls(tuple(categories), tuple(edges), is_declared=False)

    @property
    def sizes(self) -> IntArray:
        """(features,) number of codes."""
        pairs = zip(self.categories, self.edges, strict=True)
        return np.array([_size(categories, edges) for categories, edges in pairs], np.int64)

    def words(self, feature: int, name: str) -> list[str]:
        """Return the meaning of each code of a feature, in words.

        >>> Encoding.declare(2, categories={0: ["a", "b"]}, bins={1: [18, 65]}).words(1, "age")
        ['age <= 18', '18 < age <= 65', 'age > 65']
        """
        categories, edges = self.categories[feature], self.edges[feature]
        if edges is None:
            assert categories is not None
            return [f"{name} = {one}" for one in (range(categories) if isinstance(categories, int) else categories)]
        if not edges:
            return [f"{name}: any"]
        inner = [f"{low:g} < {name} <= {high:g}" for low, high in pairwise(edges)]
        return [f"{name} <= {edges[0]:g}", *inner, f"{name} > {edges[-1]:g}"]

    def encode(self, X: Any) -> NDArray[np.uint8]:
        """Return (n, features) codes of X: a DataFrame, or an array of objects or numbers."""
        if all(isinstance(one, int) for one in self.categories) and getattr(X, "dtype", None) in (np.float64, np.int64):
            known: NDArray[np.uint8] = _codes_of_numbers(np.ascontiguousarray(X, np.float64), self.sizes)
            return known
        columns = columns_of(X)
        codes = np.empty((len(X), len(self.categories)), np.uint8)
        for feature, column in enumerate(columns):
            codes[:, feature] = self._encode(column, self.categories[feature], self.edges[feature])
        return codes

    @staticmethod
    def _encode(
        column: Any, categories: tuple[object, ...] | int | None, edges: tuple[float, ...] | None
    ) -> NDArray[np.uint8]:
        if isinstance(categories, tuple):
            return positions(column, categories)
        numbers = numbers_of(column, else_missing=True)
        missing = np.isnan(numbers)
        if edges is not None:
            codes = np.searchsorted(np.asarray(edges), numbers, side="left")
        else:
            assert isinstance(categories, int)
            with np.errstate(invalid="ignore"):
                missing |= ~((numbers >= 0) & (numbers < categories) & (numbers == np.floor(numbers)))
            codes = np.where(missing, 0, numbers).astype(np.int64)
        return np.where(missing, MISSING, codes).astype(np.uint8)


@compiled()
def _codes_of_numbers(X: NDArray[np.float64], sizes: IntArray) -> NDArray[np.uint8]:
    """Return the codes of numbers that already are codes; MISSING for any other number."""
    codes = np.full(X.shape, MISSING, np.uint8)
    for row in range(X.shape[0]):
        for feature in range(X.shape[1]):
            value = X[row, feature]
            if 0 <= value < sizes[feature]:
                code = np.uint8(value)
                if code == value:
                    codes[row, feature] = code
    return codes


def edges_between(low: float, high: float, scale: str = "linear") -> list[float]:
    """Return edges of bins between declared bounds: even edges, and edges that grow from `low` on, for heavy tails.

    >>> edges_between(0, 4096)[:7]
    [1.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1024.0]
    >>> edges_between(1, 256, "log")
    [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    """
    if scale == "log":
        return [float(edge) for edge in np.geomspace(low, high, EVEN_BINS + 1)[1:-1].round(12)]
    even = np.linspace(low, high, EVEN_BINS + 1)[1:-1]
    tail = low + (high - low) / 4.0 ** np.arange(6, 1, -1)
    return [float(edge) for edge in np.union1d(even, tail)]


def _size(categories: Any, edges: Any) -> int:
    if edges is not None:
        return len(edges) + 1
    return int(categories) if isinstance(categories, int | np.integer) else len(categories)


def _check(name: object, categories: Any, edges: Any) -> None:
    size = _size(categories, edges)
    if not 1 <= size <= MISSING:
        raise ValueError(f"feature {name!r} has {size} categories: 1 to {MISSING} are supported")
    if edges is not None and not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise ValueError(f"bins of feature {name!r} must be finite and ascending")
    if not isinstance(categories, int | np.integer | None) and len(set(categories)) != len(categories):
        raise ValueError(f"categories of feature {name!r} name one category twice")


def _frozen(categories: Any) -> tuple[object, ...] | int | None:
    if categories is None or isinstance(categories, int | np.integer):
        return None if categories is None else int(categories)
    return tuple(categories)


def _frozen_edges(edges: Any) -> tuple[float, ...] | None:
    return None if edges is None else tuple(float(edge) for edge in edges)
