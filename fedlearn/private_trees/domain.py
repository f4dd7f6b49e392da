"""The declared domain: public facts about the data, known before the data is read.

Bounds, categories, classes and target bounds are declared from public knowledge of the columns. They are never learned
from the data, because a minimum or a maximum is the value of a record. Values outside the bounds are clipped; codes
outside the categories count as missing. `Domain.from_data` reads the bounds from the data all the same; it is not
private, and warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Bound = tuple[float, float] | tuple[float, float, str]
Bounds = Bound | Sequence[Bound] | Mapping[str | int, Bound] | NDArray[np.float64]
Categories = Mapping[str | int, int | Sequence[object]] | Sequence[int]

SCALES = ("linear", "log")


class NotPrivateWarning(UserWarning):
    """Warning that a fit is not differentially private, or not for the given epsilon; the text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Bounds and categories of the features; bounds or classes of the target. `Domain.declare` makes one.

    Parameters
    ----------
    low : ndarray of float64, shape (features,)
        Lower bounds.
    high : ndarray of float64, shape (features,)
        Upper bounds, above `low`.
    scale : tuple of {"linear", "log"}
        Spacing of the candidate thresholds of each feature.
    categories : ndarray of int64, shape (features,)
        Number of categories of each feature, coded 0 .. k - 1; 0 = numeric.
    target_bounds : tuple of two floats, default=(0.0, 1.0)
        Bounds of a regression target.
    classes : tuple, default=()
        Labels of a classification target.
    is_declared : bool, default=True
        False: the domain was read from the data, so it is not private.

    Examples
    --------
    >>> domain = Domain.declare(num_features=2, bounds=[(0, 10), (1, 1e4, "log")], target_bounds=(0, 5))
    >>> domain.scale
    ('linear', 'log')
    >>> domain.clip(np.array([[11.0, np.nan]]))
    array([[10., nan]])
    """

    low: FloatArray
    high: FloatArray
    scale: tuple[str, ...]
    categories: NDArray[np.int64]
    target_bounds: tuple[float, float] = (0.0, 1.0)
    classes: tuple[object, ...] = ()
    is_declared: bool = True

    @classmethod
    def declare(
        cls,
        *,
        num_features: int,
        bounds: Bounds | None = None,
        categories: Categories | None = None,
        target_bounds: tuple[float, float] = (0.0, 1.0),
        classes: Iterable[object] = (),
        feature_names: Sequence[str] | None = None,
    ) -> Domain:
        """Return the declared domain.

        Parameters
        ----------
        num_features
            Number of columns of X.
        bounds
            ``(low, high)`` for all numeric features, or one such pair for each feature, or a mapping from the feature's
            name or position to its pair. A third member, ``"log"``, spaces the thresholds evenly in the logarithm (low
            must then be above 0), which suits heavy-tailed features such as counts and incomes.
        categories
            Mapping from name or position to the number of categories (or their list), or one number for each feature,
            0 = numeric. Values are codes 0 .. k - 1.
        target_bounds
            (low, high) of a regression target; values outside are clipped.
        classes
            Labels of a classification target.
        feature_names
            Names of the columns; required if a mapping uses names.
        """
        counts = _category_counts(categories, num_features, feature_names)
        low, high, scale = np.zeros(num_features), np.ones(num_features), ["linear"] * num_features
        for feature, bound in enumerate(bound_of_features(bounds, num_features, feature_names)):
            if counts[feature]:
                low[feature], high[feature] = -0.5, counts[feature] - 0.5
            elif bound is None:
                name = feature if feature_names is None else feature_names[feature]
                raise ValueError(
                    f"bounds: feature {name!r} has none; declare its (low, high) from public knowledge, "
                    "or pass bounds_from_data=True, which is not private"
                )
            else:
                low[feature], high[feature], scale[feature] = checked_bound(bound, f"bounds of feature {feature}")
        target = checked_bound((*target_bounds,), "target_bounds")[:2]
        return cls(low, high, tuple(scale), counts, target, tuple(classes))

    @classmethod
    def from_data(
        cls,
        X: FloatArray,
        y: ArrayLike | None = None,
        *,
        categories: Categories | None = None,
        classes: Iterable[object] = (),
        feature_names: Sequence[str] | None = None,
    ) -> Domain:
        """Return a domain read from the data, with a warning: *not private*, no epsilon covers it."""
        warnings.warn(
            "bounds_from_data=True reads minima and maxima from the data: the result is not differentially private",
            NotPrivateWarning,
            stacklevel=3,
        )
        low, high = finite_range(X)
        target = (0.0, 1.0)
        if y is not None:
            first, last = finite_range(np.asarray(y, np.float64)[:, None])
            target = (float(first[0]), float(last[0]))
        pairs = [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
        declared = cls.declare(
            num_features=X.shape[1],
            bounds=pairs,
            categories=categories,
            target_bounds=target,
            classes=classes,
            feature_names=feature_names,
        )
        return cls(
            declared.low,
            declared.high,
            declared.scale,
            declared.categories,
            target,
            declared.classes,
            is_declared=False,
        )

    @property
    def num_features(self) -> int:
        """Number of features."""
        return len(self.low)

    def clip(self, X: FloatArray) -> FloatArray:
        """Return X (rows, features) inside the bounds; NaN stays NaN."""
        return np.clip(X, self.low, self.high)

    def unit(self, X: FloatArray) -> FloatArray:
        """Return X (rows, features) clipped and mapped linearly to [0, 1]; NaN stays NaN."""
        return (self.clip(X) - self.low) / (self.high - self.low)

    def unit_target(self, y: FloatArray) -> FloatArray:
        """Return y clipped to the target bounds and mapped to [0, 1]."""
        low, high = self.target_bounds
        return (np.clip(y, low, high) - low) / (high - low)

    def target_of_unit(self, value: FloatArray) -> FloatArray:
        """Return values of [0, 1] in the target's unit, inside the target bounds."""
        low, high = self.target_bounds
        return np.clip(low + value * (high - low), low, high)


def finite_range(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (low, high) of each column of X (rows, columns), NaN left out; a constant column gets a width of 1."""
    present = ~np.isnan(X)
    low = np.where(present, X, np.inf).min(axis=0, initial=np.inf)
    high = np.where(present, X, -np.inf).max(axis=0, initial=-np.inf)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 1.0)
    return low, np.where(high > low, high, low + 1)


def checked_bound(bound: Sequence[object], name: str) -> tuple[float, float, str]:
    """Return (low, high, scale) of a bound, or raise ValueError if it is malformed."""
    low, high = float(bound[0]), float(bound[1])  # type: ignore[arg-type]
    scale = str(bound[2]) if len(bound) > 2 else "linear"
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"{name}: ({low}, {high}) must be two finite numbers, the lower one first")
    if scale not in SCALES:
        raise ValueError(f"{name}: the scale {scale!r} must be one of {SCALES}")
    if scale == "log" and low <= 0:
        raise ValueError(f"{name}: a logarithmic scale needs low > 0, got {low}")
    return low, high, scale


def _positions(keys: Iterable[str | int], num_features: int, names: Sequence[str] | None, what: str) -> list[int]:
    known: list[str | int] = list(range(num_features)) if names is None else list(names)
    positions = []
    for key in keys:
        if isinstance(key, str) and key in known:
            positions.append(known.index(key))
        elif not isinstance(key, str) and 0 <= key < num_features:
            positions.append(int(key))
        else:
            raise ValueError(f"{what}: {key!r} is not a feature; features are {known}")
    return positions


def bound_of_features(
    bounds: Bounds | None, num_features: int, names: Sequence[str] | None
) -> Sequence[Sequence[object] | None]:
    """Return one bound for each feature; None where none was declared."""
    if bounds is None:
        return [None] * num_features
    if isinstance(bounds, Mapping):
        found: list[Sequence[object] | None] = [None] * num_features
        for position, bound in zip(_positions(bounds, num_features, names, "bounds"), bounds.values(), strict=True):
            found[position] = bound
        return found
    listed = list(bounds)
    if len(listed) in (2, 3) and all(np.ndim(member) == 0 for member in listed):
        return [listed] * num_features
    if len(listed) != num_features:
        raise ValueError(f"bounds: {len(listed)} pairs for {num_features} features; declare one pair for each")
    return listed


def _category_counts(
    categories: Categories | None, num_features: int, names: Sequence[str] | None
) -> NDArray[np.int64]:
    counts = np.zeros(num_features, np.int64)
    if categories is None:
        return counts
    if isinstance(categories, Mapping):
        for position, value in zip(
            _positions(categories, num_features, names, "categories"), categories.values(), strict=True
        ):
            counts[position] = value if isinstance(value, int | np.integer) else len(value)
            if counts[position] < 1:
                raise ValueError(f"categories: feature {position} has {counts[position]}; at least 1 is needed")
        return counts
    if len(categories) != num_features:
        raise ValueError(f"categories: {len(categories)} numbers for {num_features} features; declare one for each")
    return np.asarray(categories, np.int64)
