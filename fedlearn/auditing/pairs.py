"""Pairs of neighboring data sets for the exact auditor, and how tables of replays draw and change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Record: TypeAlias = tuple[NDArray[np.float64], float]  # (features,), target
Publish: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two neighboring data sets, and the function that publishes a result of one of them.

    Parameters
    ----------
    publish : callable
        Function of (X, y), with X (rows, features) and y (rows,), that returns everything that becomes known. If the
        mechanisms give the same answers on both data sets, the results must be the same.
    X, y : ndarray
        Records that both data sets have.
    record : tuple of ndarray and float
        Features (features,) and target of the record that only the first data set has.
    claimed : float or callable
        Privacy loss that the pair may have, in nats; or a function of the result that returns this loss.
    other : tuple of ndarray and float or None, default=None
        Record that the second data set has in place of `record`; None: no record, which is the relation add or remove.
    at_front : bool, default=False
        Whether `record` is the first record; else it is the last.
    booked : callable, optional
        Function of the result that returns, for callers of mechanisms whose cost is known, the epsilon that the account
        books for all calls of the caller together, in nats.
    most : int, default=1000
        Largest number of common records.
    is_secret : bool, default=True
        Whether noise must be secure, so that no two fits draw the same numbers.
    claimed_mu : float or callable, default=0.0
        The mu of all Gaussian answers together (`GaussianRounds.gaussian_mu`) that the pair may have, or a function of
        the result that returns it.
    """

    publish: Publish
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    record: Record
    claimed: float | Callable[[Any], float]
    other: Record | None = None
    at_front: bool = False
    booked: Callable[[Any], Mapping[str, float]] = lambda published: {}
    most: int = 1000
    is_secret: bool = True
    claimed_mu: float | Callable[[Any], float] = 0.0

    def first(self) -> Any:
        """Return the result of the data set with `record`."""
        return self._of(self.record)

    def second(self) -> Any:
        """Return the result of the data set without `record`, or with `other` in its place."""
        return self.publish(self.X, self.y) if self.other is None else self._of(self.other)

    def _of(self, record: Record) -> Any:
        row, target = record[0][None, :], np.array([record[1]])
        rows, targets = ((row, self.X), (target, self.y)) if self.at_front else ((self.X, row), (self.y, target))
        return self.publish(np.concatenate(rows), np.concatenate(targets))


Draw: TypeAlias = Callable[[np.random.Generator], Pair]


def changed(pair: Pair, rng: np.random.Generator) -> Pair:
    """Return the pair as it is, to draw other answers, or with another record, or with other common records."""
    rows = len(pair.y)
    if rng.random() < 0.4:
        return pair
    if not rows or rng.random() < 0.3:
        return replace(pair, record=_mixed(pair, rng))
    at = int(rng.integers(rows))
    kept = np.delete(np.arange(rows), at)
    if rng.random() < 0.5:
        times = int(rng.choice([0, 2, 8])) if rows + 7 <= pair.most else 0
        order = np.concatenate([kept, np.full(times, at)])
        return replace(pair, X=pair.X[order], y=pair.y[order])
    features, target = _mixed(pair, rng)
    return replace(pair, X=np.vstack([pair.X[kept], features]), y=np.append(pair.y[kept], target))


def _mixed(pair: Pair, rng: np.random.Generator) -> Record:
    """Return a record whose values each occur in the pair already."""
    X, y = np.vstack([pair.X, pair.record[0]]), np.append(pair.y, pair.record[1])
    columns = np.arange(X.shape[1])
    return X[rng.integers(len(X), size=len(columns)), columns], float(y[rng.integers(len(y))])


def public_of(estimator: Any) -> dict[str, Any]:
    """Return all attributes of a fitted estimator, whatever their names: a pickle of the estimator has them all."""
    return dict(vars(estimator))


def booked_by_lines(callers: Mapping[str, str], times: float = 1.0) -> Callable[[Mapping[str, Any]], dict[str, float]]:
    """Return a function of a fitted estimator that says how much its account books for each caller.

    Parameters
    ----------
    callers
        Caller of a mechanism -> beginning of the account's lines that pay for it.
    times
        Factor of the booked epsilon: 2 where records are replaced, as the account counts added or removed records.
    """

    def booked(public: Mapping[str, Any]) -> dict[str, float]:
        lines = public["privacy_spent_"].lines
        paid = {
            caller: times * sum(line.epsilon for line in lines if line.what.startswith(start))
            for caller, start in callers.items()
        }
        return {caller: epsilon for caller, epsilon in paid.items() if epsilon > 0}

    return booked


def weights_of(X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights (rows,), each a function of its own record; some are missing, or beyond the declared bound."""
    key = np.nan_to_num(X, nan=5.0, posinf=0.0, neginf=0.0).sum(axis=1) * 10 + np.nan_to_num(y) * 3
    return np.asarray(np.array([0.0, 0.3, 1.0, 2.0, 5.0, np.nan])[np.abs(key).astype(np.int64) % 6])


def perhaps_weights(rng: np.random.Generator) -> dict[str, Any]:
    """Draw the parameter that declares weights, or no parameter."""
    return {} if rng.random() < 0.7 else {"max_weight": float(rng.choice([0.5, 2.0]))}


def drawn_records(
    rng: np.random.Generator, columns: list[NDArray[np.float64]], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw X and y of a few different records, some of them repeated many times, in random order; perhaps of none.

    Among many equal records, one more record has the largest effect that it may have, or none.

    Parameters
    ----------
    columns
        Possible values of each feature.
    targets
        Possible values of the target.
    """
    kinds = int(rng.integers(5))
    X = np.array([[rng.choice(column) for column in columns] for _ in range(kinds)]).reshape(kinds, len(columns))
    y = rng.choice(targets, size=kinds)
    order = rng.permutation(np.repeat(np.arange(kinds), rng.choice([1, 1, 1, 2, 6, 30, 120], size=kinds)))
    return X[order], y[order]
