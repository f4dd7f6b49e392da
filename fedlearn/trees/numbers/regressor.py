"""What the private regressors have in common: declared parameters, checked input, the account, prediction, pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, geometric, secure_noise, seeded_noise
from fedlearn.privacy.noise import Noise
from fedlearn.trees.binning import Grid
from fedlearn.trees.domain import Domain
from fedlearn.trees.drawing import Drawable
from fedlearn.trees.nodes import NodeTable
from fedlearn.trees.numbers.histograms import Rows, arrange, parts_of
from fedlearn.trees.numbers.plan import N_SHARE, ask_for
from fedlearn.trees.predicting import predict

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Checked training data and what is public about it."""

    X: FloatArray  # (rows, features); NaN = missing
    y: FloatArray  # (rows,)
    domain: Domain
    grid: Grid
    kept: NDArray[np.bool_] | None = None  # (rows given,) which of them these are; None = all

    def of_kept(self) -> Records:
        """Return the records that are kept."""
        return replace(self, X=self.X[self.kept], y=self.y[self.kept])

    @property
    def unit_target(self) -> FloatArray:
        """(rows,) targets clipped and mapped to [0, 1]."""
        return self.domain.unit_target(self.y)

    def rows(self, unit_target: FloatArray, tree_of_row: NDArray[np.integer], trees: int) -> Rows:
        """Return the roots' rows: slot t holds the rows of tree t."""
        return arrange(self.grid.codes(self.X), parts_of(unit_target), tree_of_row, trees)


class PrivateRegressor(Drawable, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the private regressors: subclasses build ``table_`` in ``_grow``."""

    epsilon: float
    bounds: Any
    target_bounds: Any
    categories: Any
    candidates: int
    missing: str
    noise: str
    random_state: Any
    accountant: PrivacyAccountant | None
    bounds_from_data: bool
    n_declared: float | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the trees; the accountant is asked before the data is touched.

        Parameters
        ----------
        X
            (rows, features); NaN = missing; categorical features hold their codes 0 .. k - 1.
        y
            (rows,); values outside the target bounds are clipped.
        """
        self._check_parameters()
        cost = self._cost()
        accountant = PrivacyAccountant(cost) if self.accountant is None else self.accountant
        if accountant.relation is not NeighboringRelation.ADD_REMOVE:
            raise ValueError(
                f"accountant: counts in {accountant.relation.value!r}; a private tree counts in "
                f"{NeighboringRelation.ADD_REMOVE.value!r}: open an account of that kind"
            )
        ask_for(cost, accountant, what=type(self).__name__)
        if self.bounds_from_data:
            accountant.spend(math.inf, what=NOT_DECLARED)
        noise, rng = sources(self.noise, self.random_state)
        records = self._records(X, y)
        self.table_ = self._grow(records, accountant, noise, rng)
        self.domain_ = records.domain
        self.notice_ = "; ".join(filter(None, [noise.notice, "" if records.domain.is_declared else NOT_DECLARED]))
        self.privacy_spent_: Any = self._spent(accountant)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return (rows,) predictions, inside the target bounds."""
        check_is_fitted(self, "table_")
        checked = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return self._predict(np.asarray(checked))

    def _grow(
        self, records: Records, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        raise TypeError(f"{type(self).__name__} does not say how it grows")

    def _predict(self, X: FloatArray) -> FloatArray:
        low, high = self.domain_.target_bounds
        return np.clip(predict(self.table_, X)[:, 0], low, high)

    def _cost(self) -> float:
        """Return what the fit will book; bounds that are read from the data give away more than any epsilon."""
        return math.inf if self.bounds_from_data else self.epsilon

    def _spent(self, accountant: PrivacyAccountant) -> Any:
        return accountant.spent

    def _check_parameters(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon: {self.epsilon} must be above 0 (math.inf for no noise)")
        if self.missing not in ("wp", "drop"):
            raise ValueError(f"missing: {self.missing!r} must be 'wp' or 'drop'")
        if self.bounds is None and not self.bounds_from_data and self.categories is None:
            raise ValueError(
                "bounds: none declared; pass (low, high) for each feature from public knowledge, or "
                "bounds_from_data=True, which is not private"
            )
        if self.target_bounds is None and not self.bounds_from_data:
            raise ValueError("target_bounds: none declared; pass (low, high) from public knowledge")

    def _records(self, X: ArrayLike, y: ArrayLike) -> Records:
        table, target = validate_data(
            self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True, ensure_min_samples=1
        )
        target = np.asarray(target, np.float64)
        names = self._names()
        if self.bounds_from_data:
            domain = Domain.from_data(table, target, categories=self.categories, feature_names=names)
        else:
            domain = Domain.declare(
                num_features=table.shape[1],
                bounds=self.bounds,
                categories=self.categories,
                target_bounds=self.target_bounds,
                feature_names=names,
            )
        table = np.where((domain.categories > 0) & ((table < 0) | (table >= domain.categories)), np.nan, table)
        kept = np.full(len(table), True)
        if self.missing == "drop":
            kept &= ~np.isnan(table).any(axis=1)
        return Records(table, target, domain, Grid.of(domain, candidates=self.candidates), kept).of_kept()

    def _number_of_records(self, records: Records, accountant: PrivacyAccountant, noise: Noise) -> tuple[float, float]:
        """Return (n, what is left of epsilon): n as declared, else released with a share of epsilon, at least 1.

        One record changes the count by 1.
        """
        if self.n_declared is not None:
            return max(float(self.n_declared), 1.0), self.epsilon
        if math.isinf(self.epsilon):
            return max(float(len(records.y)), 1.0), self.epsilon
        share = N_SHARE * self.epsilon
        accountant.spend(share, what="number of records", is_secure=noise.is_secure)
        released = geometric(np.array([len(records.y)]), sensitivity=1, epsilon=share, noise=noise)
        return max(float(released[0]), 1.0), self.epsilon - share

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.regressor_tags.poor_score = True  # noise, by design
        tags.non_deterministic = self.noise == "secure"
        return tags


def checked_parts(
    parts: ArrayLike | None, records: Records, count: int, rng: np.random.Generator, kind: str
) -> NDArray[np.int64]:
    """Return (rows,) the part 0 .. count - 1 of each record: as given for all rows, or at random.

    At random means independently of all other records: adding or removing one changes its own part and no other, so
    mechanisms on the parts compose in parallel. With secure noise (`kind`) the draws are fresh and forgotten: whoever
    could repeat them would see a missing record by the shift of all that follow it.
    """
    if parts is None:
        return (rng if kind == "seeded" else np.random.default_rng()).integers(count, size=len(records.y))
    given = np.asarray(parts, np.int64)
    rows = len(records.y) if records.kept is None else len(records.kept)
    if given.shape != (rows,):
        raise ValueError(f"parts: shape {given.shape} for {rows} rows")
    if rows and not 0 <= given.min() <= given.max() < count:
        raise ValueError(f"parts: must be in 0 .. {count - 1}")
    return given if records.kept is None else given[records.kept]


NOT_DECLARED = "bounds were read from the data: not private"


def sources(kind: str, random_state: Any) -> tuple[Noise, np.random.Generator]:
    """Return the randomness that protects and the one that does not.

    Parameters
    ----------
    kind
        ``"secure"`` or ``"seeded"``; seeded noise can be drawn again by whoever knows `random_state`.
    random_state
        None, an integer, a numpy Generator or SeedSequence, or a RandomState.
    """
    if kind not in ("secure", "seeded"):
        raise ValueError(f"noise: {kind!r} must be 'secure' or 'seeded'")
    if kind == "seeded" and random_state is None:
        raise ValueError("random_state: seeded noise needs one; noise='secure' needs none")
    protecting, structure = _sequence(random_state).spawn(2)
    return secure_noise() if kind == "secure" else seeded_noise(protecting), np.random.default_rng(structure)


def part_sources(kind: str, random_state: Any, part: int) -> tuple[Noise, np.random.Generator]:
    """Return the randomness of one part (a node): the same for a node on its own as for all parts in one place.

    Parameters
    ----------
    kind, random_state
        As in `sources`; the same `random_state` for all parts.
    part
        Number of the part, from 0.
    """
    common = _sequence(random_state)
    own = np.random.SeedSequence(common.entropy, spawn_key=(*common.spawn_key, 2 + part))  # 0 and 1 are those of all
    return sources(kind, own if random_state is not None or kind == "secure" else None)


def _sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a fresh seed sequence: spawning from one that the caller keeps would make the next fit another one."""
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31 - 1)))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63 - 1)))
    return np.random.SeedSequence(None if random_state is None else int(random_state))
