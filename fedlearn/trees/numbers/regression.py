"""Differentially private regression trees and partitioned forests.

*Rigorous* mode (the default): pure epsilon, add or remove one record. Splits by permute-and-flip on a criterion of
sensitivity 1, leaves from noisy sums or histograms, smoothed down the tree; `growing` has the accounting, `plan` the
budget, and the depth follows from (epsilon, public number of records) by the rule in `plan.greedy_levels_for`.

*Paper* mode: the printed algorithm of Vu and Nguyen 2020 (`paper_mode`), for comparison; it gives more than the
epsilon it books, and ``privacy_spent_`` says how much.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import PrivacyAccountant
from fedlearn.privacy.noise import Noise
from fedlearn.trees.as_printed.growing import PaperSettings, grow_paper_tree
from fedlearn.trees.as_printed.privacy import PaperPrivacy, true_privacy_loss
from fedlearn.trees.domain import Domain, NotPrivateWarning
from fedlearn.trees.nodes import NodeTable, union
from fedlearn.trees.numbers.growing import Grown, grow
from fedlearn.trees.numbers.leaves import median_of_shares, plain_means, smoothed_means, smoothed_shares
from fedlearn.trees.numbers.plan import LEAF_SHARE, Plan, greedy_levels_for, plan_for
from fedlearn.trees.numbers.regressor import PrivateRegressor, Records, checked_parts, part_sources
from fedlearn.trees.numbers.splitting import CRITERIA
from fedlearn.trees.predicting import predict

OFFSET = 6.2  # doublings of epsilon * records that the first greedy level of a tree needs
SMALLEST = 2.0  # records of a node, on average, below which no split looks at the data
RANDOM_LEVELS = 2  # below the greedy ones; smoothing makes up for the smaller leaves
FEWEST = 8.0  # records of a leaf, on average, of a tree that stands alone; those of a forest are averaged anyway


class DPRegressionTree(PrivateRegressor):
    """One private regression tree.

    It stands alone: its leaves hold at least `FEWEST` records on average. `DPEnsembleTree` is for one of many.

    Parameters
    ----------
    epsilon
        What the fit spends, in nats, > 0; ``math.inf`` = no noise.
    bounds, target_bounds, categories
        The declared domain, see `Domain.declare`. Never learned from the data.
    criterion
        ``"vote"`` (labels around a private centre of the node), ``"squared"``, ``"absolute"``, or ``"random"``:
        splits that do not look at the data, and the whole budget for the leaves.
    leaf
        ``"mean"``, or ``"median"``: leaves hold distributions on 11 knots of the target bounds, a prediction is the
        median of the trees' pooled distributions.
    depth
        Number of levels of splits; None = the rule.
    leaf_share
        Share of epsilon for the leaves, in (0, 1).
    smoothing
        Whether leaves lean on their parents (post-processing, free of charge).
    n_declared
        The number of records, if it is public; None = 2 % of epsilon release it.
    candidates
        Thresholds of each numeric feature, 1 to 254.
    missing
        ``"wp"``: a record with a missing value goes to all children with its weight divided; ``"drop"``: it is left
        out.
    mode
        ``"rigorous"`` or ``"paper"``.
    min_split, min_leaf, reading
        Of paper mode alone: N_split, N_leaf, and how the printed text is read (``"fitted"`` or ``"literal"``).
    noise, random_state
        ``"secure"`` (the operating system's randomness) or ``"seeded"`` (reproducible, protects nobody; needs a
        `random_state`).
    accountant
        The account to spend from; None = one of its own with a budget of epsilon.
    bounds_from_data
        True reads all bounds from the data, which is *not private*, and warns.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        bounds: Any = None,
        target_bounds: Any = None,
        categories: Any = None,
        criterion: str = "vote",
        leaf: str = "median",
        depth: int | None = None,
        leaf_share: float = LEAF_SHARE,
        smoothing: bool = True,
        n_declared: float | None = None,
        candidates: int = 40,
        missing: str = "wp",
        mode: str = "rigorous",
        min_split: int = 20,
        min_leaf: int = 10,
        reading: str = "fitted",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.categories = categories
        self.criterion = criterion
        self.leaf = leaf
        self.depth = depth
        self.leaf_share = leaf_share
        self.smoothing = smoothing
        self.n_declared = n_declared
        self.candidates = candidates
        self.missing = missing
        self.mode = mode
        self.min_split = min_split
        self.min_leaf = min_leaf
        self.reading = reading
        self.noise = noise
        self.random_state = random_state
        self.accountant = accountant
        self.bounds_from_data = bounds_from_data

    _paper_depth = 15
    _stands_alone = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.criterion not in (*CRITERIA, "random"):
            raise ValueError(f"criterion: {self.criterion!r} must be one of {(*CRITERIA, 'random')}")
        if self.leaf not in ("mean", "median"):
            raise ValueError(f"leaf: {self.leaf!r} must be 'mean' or 'median'")
        if self.mode not in ("rigorous", "paper"):
            raise ValueError(f"mode: {self.mode!r} must be 'rigorous' or 'paper'")
        if not 0 < self.leaf_share < 1:
            raise ValueError(f"leaf_share: {self.leaf_share} must be in (0, 1)")
        if self.depth is not None and not 0 <= self.depth <= 20:
            raise ValueError(f"depth: {self.depth} must be None or in 0 .. 20")

    def _trees(self) -> int:
        return 1

    def _tree_of_row(self, records: Records, rng: np.random.Generator) -> NDArray[np.integer]:
        return np.zeros(len(records.y), np.int64)

    def _grow(
        self, records: Records, accountant: PrivacyAccountant, noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        tree_of_row = self._tree_of_row(records, rng)
        if self.mode == "paper":
            accountant.spend(self._cost(), what="paper mode, what it really gives", is_secure=noise.is_secure)
            return self._grow_printed(records, tree_of_row, noise)
        n, epsilon = self._number_of_records(records, accountant, noise)
        self.plan_ = self._plan(epsilon, n / self._trees())
        self.plan_.spend_from(accountant, is_secure=noise.is_secure)
        return self._grow_planned(records, tree_of_row, noise, rng)

    def _grow_planned(
        self, records: Records, tree_of_row: NDArray[np.integer], noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        return grow_trees(
            records,
            tree_of_row,
            trees=self._trees(),
            plan=self.plan_,
            noise=noise,
            rng=rng,
            smoothing=self.smoothing,
        )

    def _plan(self, epsilon: float, n: float) -> Plan:
        """Return the plan for a tree of n records: a rule of public numbers."""
        greedy = 0 if self.criterion == "random" else greedy_levels_for(epsilon, n, offset=OFFSET, smallest=SMALLEST)
        if self.criterion == "random":
            random = greedy_levels_for(epsilon, n, offset=OFFSET, smallest=SMALLEST) + RANDOM_LEVELS
        else:
            random = RANDOM_LEVELS if self.smoothing else 0
        if self.depth is not None:
            greedy = min(greedy, self.depth)
            random = self.depth - greedy
        elif self._stands_alone:
            room = max(math.floor(math.log2(max(n, 1.0) / FEWEST)), 1)
            greedy = min(greedy, room)
            random = min(random, room - greedy)
        return plan_for(
            epsilon,
            greedy_levels=greedy,
            random_levels=random,
            criterion=self.criterion,
            leaf=self.leaf,
            leaf_share=self.leaf_share,
        )

    def _predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return predict_target(self.table_, X, self.domain_)

    def _drawn(self) -> NodeTable:
        return replace(self.table_, value=target_of_values(self.table_.value, self.domain_)[:, None])

    def _grow_printed(self, records: Records, tree_of_row: NDArray[np.integer], noise: Noise) -> NodeTable:
        settings = self._printed_settings()
        warnings.warn(
            f"mode='paper' is not {self.epsilon:g}-private: {self._printed_loss()}",
            NotPrivateWarning,
            stacklevel=4,
        )
        options = {name: getattr(settings, name) for name in ("depth", "min_split", "min_leaf", "candidates")}
        trees = [
            grow_paper_tree(
                records.X[tree_of_row == tree],
                records.y[tree_of_row == tree],
                domain=records.domain,
                epsilon=self.epsilon,
                leaf=settings.leaf,
                reading=settings.reading,
                noise=noise,
                **options,
            )
            for tree in range(self._trees())
        ]
        return union(trees)

    def _printed_settings(self) -> PaperSettings:
        return PaperSettings(
            epsilon=self.epsilon,
            depth=self._paper_depth if self.depth is None else self.depth,
            min_split=self.min_split,
            min_leaf=self.min_leaf,
            candidates=self.candidates,
            leaf=self.leaf,  # type: ignore[arg-type]
            reading=self.reading,  # type: ignore[arg-type]
        )

    def _cost(self) -> float:
        return self._printed_loss().epsilon if self.mode == "paper" else super()._cost()

    def _printed_loss(self) -> PaperPrivacy:
        return true_privacy_loss(self._printed_settings(), bounds_declared=not self.bounds_from_data)

    def _spent(self, accountant: PrivacyAccountant) -> Any:
        return self._printed_loss() if self.mode == "paper" else accountant.spent


class DPEnsembleTree(DPRegressionTree):
    """One tree of a forest whose others grow elsewhere, as in a federation; as deep as one of `DPRegressionForest`."""

    _stands_alone = False


class DPRegressionForest(DPRegressionTree):
    """Private trees on disjoint parts of the rows, each with the whole epsilon; prediction = mean over the trees.

    Each row goes to one of the trees at random, *independently of all other rows*: adding or removing a record
    changes one part only, so the trees compose in parallel. (Parts of exactly equal size would not: they shift by a
    row when a record comes.) Parameters are those of `DPRegressionTree`, and:

    Parameters
    ----------
    n_trees
        Number of trees, 1 or more.
    """

    _paper_depth = 5
    _stands_alone = False

    def __init__(
        self,
        *,
        n_trees: int = 25,
        epsilon: float = 1.0,
        bounds: Any = None,
        target_bounds: Any = None,
        categories: Any = None,
        criterion: str = "vote",
        leaf: str = "median",
        depth: int | None = None,
        leaf_share: float = LEAF_SHARE,
        smoothing: bool = True,
        n_declared: float | None = None,
        candidates: int = 40,
        missing: str = "wp",
        mode: str = "rigorous",
        min_split: int = 20,
        min_leaf: int = 10,
        reading: str = "fitted",
        noise: str = "secure",
        random_state: Any = None,
        accountant: PrivacyAccountant | None = None,
        bounds_from_data: bool = False,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            bounds=bounds,
            target_bounds=target_bounds,
            categories=categories,
            criterion=criterion,
            leaf=leaf,
            depth=depth,
            leaf_share=leaf_share,
            smoothing=smoothing,
            n_declared=n_declared,
            candidates=candidates,
            missing=missing,
            mode=mode,
            min_split=min_split,
            min_leaf=min_leaf,
            reading=reading,
            noise=noise,
            random_state=random_state,
            accountant=accountant,
            bounds_from_data=bounds_from_data,
        )
        self.n_trees = n_trees

    def fit(self, X: ArrayLike, y: ArrayLike, *, parts: ArrayLike | None = None) -> Self:
        """Grow the trees on disjoint parts.

        Parameters
        ----------
        X, y
            As in `DPRegressionTree`.
        parts
            (rows,) the tree 0 .. n_trees - 1 of each row, if the parts are given from outside, as by the nodes that
            hold the rows. A record's part must not depend on other records. None = at random.
        """
        self._parts = parts
        try:
            return super().fit(X, y)
        finally:
            del self._parts

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_trees < 1:
            raise ValueError(f"n_trees: {self.n_trees} must be 1 or more")

    def _trees(self) -> int:
        return self.n_trees

    def _grow_planned(
        self, records: Records, tree_of_row: NDArray[np.integer], noise: Noise, rng: np.random.Generator
    ) -> NodeTable:
        if self._parts is None:
            return super()._grow_planned(records, tree_of_row, noise, rng)
        return union([self._grow_part(records, tree_of_row == part, part) for part in range(self.n_trees)])

    def _grow_part(self, records: Records, here: NDArray[np.bool_], part: int) -> NodeTable:
        """Return the tree of one given part, with randomness of its own: what the node that holds it would grow."""
        noise, rng = part_sources(self.noise, self.random_state, part)
        rows = replace(records, X=records.X[here], y=records.y[here])
        zeros = np.zeros(len(rows.y), np.int64)
        return grow_trees(rows, zeros, trees=1, plan=self.plan_, noise=noise, rng=rng, smoothing=self.smoothing)

    def _tree_of_row(self, records: Records, rng: np.random.Generator) -> NDArray[np.integer]:
        return checked_parts(self._parts, records, self.n_trees, rng, self.noise)


def grow_trees(
    records: Records,
    tree_of_row: NDArray[np.integer],
    *,
    trees: int,
    plan: Plan,
    noise: Noise,
    rng: np.random.Generator,
    smoothing: bool = True,
) -> NodeTable:
    """Return trees on disjoint rows, all grown at once; the accountant has been asked for ``plan.epsilon``.

    Parameters
    ----------
    records
        Data and declared domain: ``Records(X, y, domain, Grid.of(domain))``.
    tree_of_row
        (rows,) in 0 .. trees - 1.
    plan
        As of `plan_for`.
    noise, rng
        The randomness that protects, and the one that does not.
    """
    rows = records.rows(records.unit_target, tree_of_row, trees)
    grown = grow(rows, records.grid, plan, noise=noise, rng=rng)
    return grown.table(records.grid, values_of(grown, plan, records.domain, smoothing=smoothing))


def values_of(grown: Grown, plan: Plan, domain: Domain, *, smoothing: bool = True) -> list[NDArray[np.float64]]:
    """Return the values of every node of every level, root first.

    (slots,) means in the target's unit; of median leaves (slots, knots) the distribution over even knots of the target
    bounds, which sums to 1.
    """
    if grown.hats is not None:
        return smoothed_shares(grown.hats, plan.depth, smoothing=smoothing)
    means = smoothed_means(grown.sums, plan.spreads, plan.within) if smoothing else plain_means(grown.sums)
    return [domain.target_of_unit(mean) for mean in means]


def predict_target(table: NodeTable, X: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) predictions inside the target bounds: of means the mean, of distributions the pooled median."""
    values = predict(table, X)
    return target_of_values(values, domain)


def target_of_values(values: NDArray[np.float64], domain: Domain) -> NDArray[np.float64]:
    """Return (rows,) what (rows, 1) means or (rows, knots) distributions say of the target, in its unit."""
    if values.shape[1] > 1:
        return domain.target_of_unit(median_of_shares(values))
    return np.clip(values[:, 0], *domain.target_bounds)
