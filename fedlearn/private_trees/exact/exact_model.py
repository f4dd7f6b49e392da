"""Boosted trees of exact sums, as a model: what nodes are asked in each round, and the trees that follow.

*Rounds.* Round 1 sums the records in the fine cells of each number, and the start of all scores. Each further round
sums histograms of gradients for some nodes of one level of the trees: the roots, then one child of each node that was
split. A state holds the trees so far, the nodes that are asked next, and the histograms of their parents; sums of
earlier rounds are not kept (`condensed`).

*The same scores, whoever holds the records.* The score of a record depends on the trees and on this record. Its
gradients are rounded to multiples of 2^-30 of the most that they can be before they are added up, as whole numbers.
So sums, trees and scores do not depend on nodes, order, workers or masks.

*No promise*: sums are exact. What they tell is said in docs/explanations/exact_sums.md. All rounds are sums over as
many nodes: where one leaves, two sums would tell what it had added.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.metric import ACCURACY, LOSS, MAE, MAE_SCALED
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import ArraySpec, Layout, State, UpdateKind, layout_of
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation, Finished
from fedlearn.models.models_of_tables import table_of
from fedlearn.models.sums import ExactSums, check_layout, check_size
from fedlearn.models.torch.measuring import of_classes, of_numbers
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import did_you_mean
from fedlearn.private_trees.exact.coded_records import Records, Scores, Table, edges_of, grown_trees
from fedlearn.private_trees.exact.column_bins import Cells
from fedlearn.private_trees.exact.exact_growing import Grower, Rule
from fedlearn.private_trees.exact.exact_losses import FloatArray, Loss
from fedlearn.private_trees.exact.exact_row import DEPTH, TREES
from fedlearn.private_trees.exact.fitted_boosting import BoostedClassifier, BoostedRegressor
from fedlearn.private_trees.exact.flat_trees import Trees

MOST_BITS = 30  # of what one record adds; the same for as many clients as possible, as it decides how sums are rounded
SUM_BITS = 61  # of the largest sum of all clients, without its sign
NAME = "exact-boosting"
GROWN = "all trees are grown"
IntArray = NDArray[np.int64]


class ExactBoosting(ExactSums):
    """Boosted trees of the exact sums of all nodes; parameters as in scikit-learn's HistGradientBoosting.

    Parameters
    ----------
    schema
        Declared columns of the table, with classes or with bounds of its target.
    loss : {"auto", "log_loss", "squared_error", "poisson"}, default="auto"
        ``"auto"``: ``"log_loss"`` of classes, ``"squared_error"`` of a number.
    max_iter : int, default=100
        Number of iterations; each grows one tree, or one for each of more than two classes.
    learning_rate : float, default=0.1
        Factor of the values of all leaves.
    max_depth : int, default=5
        Most splits between root and leaf; each level is a round.
    max_leaf_nodes : int, default=31
        Most leaves of a tree; the splits of the largest gains remain.
    min_samples_leaf : int, default=20
        Least number of records in a leaf.
    l2_regularization : float, default=0.0
        Penalty of the square of a leaf's value.
    max_bins : int, default=64
        Most bins of a number.
    max_features : float, default=1.0
        Share of the columns that a node may test, drawn by the run's seed.
    subsample : float, default=1.0
        Share of the records from which an iteration learns, drawn by the run's seed and each record's content.
    monotonic_cst : dict, default={}
        Column of numbers -> 1 or -1: the prediction never falls, or never rises, with it.
    weights : str, default=""
        Column that says how often a record counts; no tree tests it.
    """

    update_kind = UpdateKind.SUMS

    def __init__(
        self,
        schema: TableSchema,
        *,
        loss: Literal["auto", "log_loss", "squared_error", "poisson"] = "auto",
        max_iter: Annotated[int, Field(ge=1)] = TREES,
        learning_rate: Annotated[float, Field(gt=0)] = 0.1,
        max_depth: Annotated[int, Field(ge=1, le=16)] = DEPTH,
        max_leaf_nodes: Annotated[int, Field(ge=2)] = 31,
        min_samples_leaf: Annotated[int, Field(ge=1)] = 20,
        l2_regularization: Annotated[float, Field(ge=0)] = 0.0,
        max_bins: Annotated[int, Field(ge=2, le=255)] = 64,
        max_features: Annotated[float, Field(gt=0, le=1)] = 1.0,
        subsample: Annotated[float, Field(gt=0, le=1)] = 1.0,
        monotonic_cst: Mapping[str, Literal[-1, 1]] | None = None,
        weights: str = "",
    ) -> None:
        self.loss = _loss_of(schema, loss)
        _check_weights(schema, weights)
        self.table = Table.of(schema, self.loss, weights, subsample)
        self.cells = Cells.declare(self.table.schema, max_bins)
        self.signs = _signs(self.table.schema, monotonic_cst or {})
        self.max_iter = max_iter
        self.rule = Rule(learning_rate, max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization, max_features)
        self.metrics = Metrics((), (LOSS, ACCURACY) if schema.classes else (MAE, MAE_SCALED))
        self._settle(RunConfig())

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        made = copy.copy(self)
        made._settle(config)
        return made

    def _settle(self, config: RunConfig) -> None:
        """Take the seed, and the whole number that stands for the most that a record adds to a sum."""
        records = config.largest_cohort * config.gate.max_examples
        self.cap = 1 << max(min(SUM_BITS - records.bit_length(), MOST_BITS), 0)
        self.seed, self.rule = config.seed, replace(self.rule, seed=config.seed)
        self._scores = Scores(self.table, self.cells)

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1, which holds no tree; the seed makes no difference."""
        whole, floats = np.zeros(0, np.int64), np.zeros(0)
        return {
            "sums": whole, "reports": whole, "asked": whole, "bins": whole, "edges": floats, "start": floats,
            **Trees.none().arrays,
        }  # fmt: skip

    def finished(self, state: State) -> Finished:
        """Return why no further round is needed, or possible; nothing as long as there is one."""
        left = self.left(state)
        return left if left.why else Finished(GROWN if len(state["start"]) and not len(state["asked"]) else "")

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the sums that the next round asks for, of these examples."""
        if not len(state["start"]):
            return self._first_sums(examples)
        return self._histograms(state, self._scores.of(state, examples))

    def condensed(self, state: State) -> State:
        """Return the state with the trees that the last sums tell, and without sums that are not needed again."""
        asked, shape = state["asked"], (-1, self.cells.total(len(state["edges"])), 3)
        kept = 0 if not len(asked) or asked[0] in state["root"] else len(asked)
        if not len(state["start"]):
            return self._begun(state) if len(state["sums"]) else state
        sums = state["sums"].reshape(shape)
        if len(sums) == kept:
            return state
        units = self.loss.most * self.table.heaviest / self.cap
        grower = Grower(self.rule, self._columns(state), units)
        trees, asked, parents = grower.grown(Trees.of_state(state), asked, sums[kept:], sums[:kept])
        return self._next({**state, "sums": parents.ravel(), "asked": asked}, trees)

    def check_state(self, state: State) -> None:
        """Raise `Refused` for a state that no honest server sends."""
        found = layout_of(state)
        check_layout(found, {
            name: ArraySpec((found[name].shape[:1] if name in found else ()) + array.shape[1:], str(array.dtype))
            for name, array in self.initial_state(seed=0).items()
        })  # fmt: skip
        self._check_trees(state)
        check_size(state["sums"], 1 << SUM_BITS)
        if self.finished(state).is_failure:
            raise Refused("wrong-count", "the sums before are of other clients")

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy for classes, the absolute error for a number as target."""
        scores = self._scores_of(state, examples)
        if self.loss.classes:
            return of_classes(self.loss.shares(scores), examples)
        return of_numbers(self.loss.predicted(scores), examples, (self.loss.low, self.loss.high))

    def shares(self, state: State, features: FloatArray) -> FloatArray:
        """Return the probability of each class, (rows, classes)."""
        return self.loss.shares(self.score(state, features))

    def predict(self, state: State, features: FloatArray) -> FloatArray:
        """Return predictions (rows,) of a number in the target's unit."""
        return self.loss.predicted(self.score(state, features))

    def score(self, state: State, features: FloatArray) -> FloatArray:
        """Return the scores, (rows, outputs); before round 1 they are 0."""
        return self._scores_of(state, Examples(features, np.zeros(len(features))))

    def fitted(self, state: State) -> BoostedClassifier | BoostedRegressor:
        """Return the trees of a state, which read like a fitted estimator of scikit-learn."""
        kind: type[BoostedClassifier] | type[BoostedRegressor]
        kind = BoostedClassifier if self.loss.classes else BoostedRegressor
        table = replace(self.table, columns=tuple(range(self.cells.columns)))
        return kind(table, self.cells, self.loss, edges_of(state), state["start"], grown_trees(state))

    def fit(self, tables: Sequence[Examples]) -> State:
        """Return the final state for tables in one place: each is what one node would hold."""
        state, records = self.initial_state(seed=0), list[Records]()
        while not self.finished(state).why:
            if len(state["start"]) and not records:
                records = [self._scores.of(state, each) for each in tables]
            sums = sum([self._histograms(state, r) for r in records] or [self._first_sums(each) for each in tables])
            reports = np.append(state["reports"], len(tables))
            state = self.condensed({**state, "sums": np.concatenate([state["sums"], sums]), "reports": reports})
        return state

    def _histograms(self, state: State, records: Records) -> IntArray:
        """Return the histograms that a state asks for, of these records."""
        firsts, cells, trees = self._columns(state)[:, 0], self.cells.total(len(state["edges"])), Trees.of_state(state)
        records.move_to(grown_trees(state))
        return records.histograms(trees, state["asked"], firsts, cells, self.cap, self.seed).ravel()

    def _first_sums(self, examples: Examples) -> IntArray:
        """Return the number of records in each fine cell, and what the start is made of."""
        kept, target, weight = self.table.learned(examples)
        parts = self.loss.first_of(target[kept]) * weight[kept, None] * self.cap
        counts = self.cells.counts(examples.inputs[kept][:, self.table.columns])
        return np.concatenate([counts, np.rint(parts).astype(np.int64).sum(axis=0)])

    def _begun(self, state: State) -> State:
        """Return the state with bins, start, and the first roots."""
        counts, first = np.split(state["sums"], [self.cells.first_length])
        edges = self.cells.edges(counts)
        begun = {
            "sums": np.zeros(0, np.int64),
            "bins": np.array([len(each) for each in edges], np.int64),
            "edges": np.concatenate([np.zeros(0), *edges]),
            "start": self.loss.start(first / self.cap),
        }
        return self._next({**state, **begun}, Trees.none())

    def _next(self, state: State, trees: Trees) -> State:
        """Return the state with these trees; where they are grown, with the roots of the next iteration."""
        outputs = self.loss.outputs
        before = max(len(trees.root) - outputs, 0)
        if not len(state["asked"]):
            trees = trees.pruned(before, self.rule.max_leaf_nodes)
            is_drawn = self.table.subsample < 1 or self.rule.max_features < 1
            goes_on = is_drawn or not len(trees.root) or (trees.child[trees.root[before:]] >= 0).any()
            if goes_on and len(trees.root) < self.max_iter * outputs:
                trees = trees.with_roots(outputs)
                state = {**state, "asked": trees.root[-outputs:].astype(np.int64)}
        return {**state, **trees.arrays}

    def _scores_of(self, state: State, examples: Examples) -> FloatArray:
        if not len(state["start"]):
            return np.zeros((len(examples), self.loss.outputs))
        records = self._scores.of(state, examples)
        records.move_to(grown_trees(state))
        return records.scores

    def _columns(self, state: State) -> IntArray:
        return self.cells.table(state["bins"], self.signs)

    def length_after(self, before: Layout) -> int:
        """Return the number of sums in a report on a state."""
        if not before["start"].size:
            return self.cells.first_length + self.loss.first_width
        return before["asked"].size * self.cells.total(before["edges"].size) * 3

    def _check_trees(self, state: State) -> None:
        """Raise `Refused` unless the arrays are trees over the declared columns, and what is asked are their nodes."""
        trees, asked, bins = Trees.of_state(state), state["asked"], state["bins"]
        trees.check(self.cells.columns)
        if len(asked) and (asked.min() < 0 or asked.max() >= len(trees.feature)):
            raise Refused("bad-child", "a node is asked for that is none of the trees")
        begun, outputs = len(state["start"]) > 0, self.loss.outputs
        sizes = (len(state["start"]), len(bins), len(trees.root) % outputs)
        wanted = (outputs, len(self.cells.fine), 0) if begun else (0, 0, 0)
        if sizes != wanted or (len(asked) and not len(trees.root)):
            raise Refused("wrong-shape", "bins, start and trees are not those of the declared table")
        if len(bins) and (bins.min() < 0 or bins.max() >= self.cells.max_bins or bins.sum() != len(state["edges"])):
            raise Refused("wrong-shape", "a column has other bins than were asked for")
        if not all(np.isfinite(state[name]).all() for name in ("start", "edges", "value")):
            raise Refused("not-finite", "a number of the state is not finite")


def exact_boosting(spec: DataSpec, options: Mapping[str, Any]) -> ExactBoosting:
    """Return the model ``exact-boosting`` for a table; raise `SettingError` for other data or options."""
    given = options_for(ExactBoosting, options, setting="model.options", reserved=("schema",))
    return ExactBoosting(table_of(NAME, spec), **given)


def _loss_of(schema: TableSchema, wanted: str) -> Loss:
    """Return the loss of a table; raise `SettingError` where it does not fit the target."""
    classes, bounds = len(schema.classes), schema.target_bounds
    name = ("log_loss" if classes else "squared_error") if wanted == "auto" else wanted
    low, high = bounds or (0.0, 1.0)
    fits = {"log_loss": classes > 1, "squared_error": not classes, "poisson": not classes and low >= 0}[name]
    if not fits:
        wants = {"log_loss": "classes", "squared_error": "a number", "poisson": "a number with bounds from 0 on"}
        why = f"it takes {wants[name]} as target, and {schema.target!r} is something else: leave it out"
        raise SettingError("model.options.loss", wanted, why)
    return Loss(name, classes, low, high)


def _signs(schema: TableSchema, given: Mapping[str, int]) -> list[int]:
    """Return the monotone constraint of each column, 0 without one."""
    if strange := [name for name in given if name not in schema.bounds]:
        known = f"name columns of numbers: {', '.join(schema.bounds)}{did_you_mean(strange[0], schema.bounds)}"
        raise SettingError("model.options.monotonic_cst", strange[0], known)
    return [given.get(name, 0) for name in schema.features]


def _check_weights(schema: TableSchema, name: str) -> None:
    """Raise `SettingError` unless weights are a column of numbers from 0 on."""
    if name and (name not in schema.bounds or schema.bounds[name][0] < 0 or schema.bounds[name][1] <= 0):
        allowed = [each for each, bound in schema.bounds.items() if bound[0] >= 0]
        why = f"weights are a column with bounds from 0 on{did_you_mean(name, allowed)}: declare it, or leave it out"
        raise SettingError("model.options.weights", name, why)
