from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit
from fedlearn.private_trees import (
    DPEnsembleTree,
    DPRegressionForest,
    DPRegressionTree,
    DPRelayForest,
    NotPrivateWarning,
    union,
)
from fedlearn.private_trees.binning import Grid
from fedlearn.private_trees.numbers.planned_trees import grow_trees, target_of_values
from fedlearn.private_trees.numbers.randomness import part_sources
from fedlearn.private_trees.numbers.training_set import TrainingSet
from fedlearn.private_trees.numbers.voted import DPVotedForest
from fedlearn.private_trees.predicting import predict
from tests.oracles.private_estimators import WEIGHTS

BOUNDS = {"bounds": (0.0, 1.0), "target_bounds": (-1.0, 3.0)}
SEEDED = {**BOUNDS, "noise": "seeded", "random_state": 7}
ALL = [DPRegressionTree, DPEnsembleTree, DPRegressionForest, DPRelayForest, DPVotedForest]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 4))
    return X, np.where(X[:, 0] > 0.5, 2.0, 0.0) + X[:, 1] + 0.1 * rng.normal(size=3000)


@pytest.mark.parametrize("estimator", ALL)
def test_the_fit_spends_exactly_epsilon_and_says_on_what(estimator, data):
    spent = estimator(epsilon=1.3, **SEEDED).fit(*data).privacy_spent_
    assert math.isclose(spent.epsilon, 1.3, rel_tol=1e-12)
    assert spent.relation.value == "add or remove one record"
    assert spent.unit.value == "record"
    assert not spent.is_secure
    assert spent.lines[0].what == "number of records"
    assert spent.lines[-1].level == max(line.level for line in spent.lines[1:])


@pytest.mark.parametrize("estimator", ALL)
def test_a_declared_number_of_records_costs_nothing(estimator, data):
    fitted = estimator(n_declared=3000, **SEEDED).fit(*data)
    assert all(line.level is not None for line in fitted.privacy_spent_.lines)
    assert math.isclose(fitted.privacy_spent_.epsilon, 1.0, rel_tol=1e-12)


@pytest.mark.parametrize("estimator", ALL)
def test_an_empty_account_refuses_before_the_data_is_touched(estimator):
    accountant = PrivacyAccountant(0.5)
    with pytest.raises(BudgetExceeded):
        estimator(epsilon=1.0, accountant=accountant, **SEEDED).fit(None, None)
    assert not accountant.spent.lines


def test_two_fits_from_one_account_add_up(data):
    accountant = PrivacyAccountant(1.0)
    DPRegressionTree(epsilon=0.6, accountant=accountant, **SEEDED).fit(*data)
    assert math.isclose(accountant.spent.epsilon, 0.6)
    with pytest.raises(BudgetExceeded):
        DPRegressionTree(epsilon=0.6, accountant=accountant, **SEEDED).fit(*data)


@pytest.mark.parametrize("estimator", ALL)
def test_the_same_seed_gives_the_same_table_and_another_seed_another(estimator, data):
    first, again = (estimator(**SEEDED).fit(*data).table_ for _ in range(2))
    other = estimator(**{**SEEDED, "random_state": 8}).fit(*data).table_
    np.testing.assert_array_equal(first.value, again.value)
    assert first.value.shape != other.value.shape or not np.array_equal(first.value, other.value)


@pytest.mark.parametrize("estimator", ALL)
def test_it_learns_and_stays_inside_the_target_bounds(estimator, data):
    X, y = data
    for epsilon in (0.05, 20.0):
        predicted = estimator(epsilon=epsilon, **SEEDED).fit(X, y).predict(X)
        assert predicted.min() >= -1
        assert predicted.max() <= 3
    assert np.abs(predicted - y).mean() < 0.6 * np.abs(y - np.median(y)).mean()


@pytest.mark.parametrize("estimator", [DPRegressionTree, DPRegressionForest, DPVotedForest])
def test_the_table_is_valid_under_the_declared_domain(estimator, data):
    fitted = estimator(**SEEDED).fit(*data)
    outputs = fitted.table_.value.shape[1]
    bounds = (-1, 3) if outputs == 1 else (0, 1)  # means; or shares of a distribution
    fitted.table_.validate(num_features=4, outputs=outputs, value_bounds=bounds, max_depth=20)


def test_a_forest_of_medians_predicts_the_median_of_the_pooled_distributions(data):
    X, y = data
    forest = DPRegressionForest(n_trees=3, epsilon=10, **SEEDED).fit(X, y)
    shares = np.mean([forest_tree(forest.table_, tree).value[0] for tree in range(3)], axis=0)
    np.testing.assert_allclose(shares.sum(), 1.0)
    pooled = target_of_values(predict(forest.table_, X), forest.domain_)
    np.testing.assert_array_equal(forest.predict(X), pooled)


@pytest.mark.parametrize("leaf_value", ["mean", "median"])
@pytest.mark.parametrize("criterion", ["vote", "squared", "absolute", "random"])
def test_every_criterion_and_leaf_works(criterion, leaf_value, data):
    X, y = data
    fitted = DPRegressionForest(n_trees=3, criterion=criterion, leaf=leaf_value, epsilon=10, **SEEDED).fit(X, y)
    assert np.abs(fitted.predict(X) - y).mean() < 0.8 * np.abs(y - np.median(y)).mean()
    levels = {line.level for line in fitted.privacy_spent_.lines if line.what.startswith("choice")}
    assert bool(levels) == (criterion != "random")


def test_without_noise_it_is_scikit_learns_tree_on_the_same_thresholds():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 8, (400, 3)) / 8  # thresholds k / 8 - 1 / 16: scikit-learn's midpoints are ours
    y = np.where(X[:, 0] > 0.4, 1.0, 0.0) + X[:, 1] ** 2 + 0.3 * rng.random(400)
    ours = DPRegressionTree(
        epsilon=math.inf,
        bounds=(-1 / 16, 1 - 1 / 16),
        target_bounds=(0, 3),
        candidates=7,
        criterion="squared",
        leaf="mean",
        depth=4,
        smoothing=False,
        noise="seeded",
        random_state=0,
    ).fit(X, y)
    theirs = DecisionTreeRegressor(max_depth=4).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


def test_given_parts_grow_the_trees_on_their_own_rows(data):
    X, y = data
    parts = (X[:, 0] > 0.5).astype(int)
    forest = DPRegressionForest(n_trees=2, epsilon=100, **SEEDED).fit(X, y, parts=parts)
    trees = [forest_tree(forest.table_, tree) for tree in range(2)]
    low, high = (target_of_values(tree.value[tree.is_leaf], forest.domain_).mean() for tree in trees)
    assert low < 1 < high


def forest_tree(table, tree):
    """One tree of an ensemble, found by walking down from its root."""
    keep = [int(table.root[tree])]
    for node in keep:
        keep += range(table.first_child[node], table.first_child[node] + table.num_children[node])
    return type(table)(
        root=np.zeros(1, np.int32),
        weight=np.ones(1),
        **{
            name: getattr(table, name)[keep]
            for name in ("feature", "threshold", "first_child", "num_children", "value")
        },
    )


def test_a_node_on_its_own_grows_the_tree_that_the_forest_grows_on_its_part(data):
    X, y = data
    parts = np.arange(3000) % 3
    forest = DPRegressionForest(n_trees=3, n_declared=3000, **SEEDED).fit(X, y, parts=parts)
    domain = forest.domain_
    for node in range(3):
        here = parts == node
        noise, rng = part_sources("seeded", 7, node)
        training = TrainingSet(X[here], y[here], domain, Grid.of(domain))
        plan = DPEnsembleTree()._plan(1.0, 3000 / 3)
        tree = grow_trees(training, np.zeros(1000, int), trees=1, plan=plan, noise=noise, rng=rng)
        np.testing.assert_array_equal(tree.value, forest_tree(forest.table_, node).value)


@pytest.mark.parametrize("wrong", [[0, 1], np.zeros((3000, 2))])
def test_parts_that_do_not_fit_are_refused(wrong, data):
    with pytest.raises(ValueError, match="parts"):
        DPRegressionForest(**SEEDED).fit(*data, parts=wrong)


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("missing", ["wp", "drop"])
def test_missing_values_are_handled_at_training_and_at_prediction(estimator, missing, data):
    X, y = data
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    fitted = estimator(epsilon=20, missing=missing, **SEEDED).fit(X, y)
    assert np.abs(fitted.predict(X) - y).mean() < 0.8 * np.abs(y - np.median(y)).mean()
    assert np.isfinite(fitted.predict(np.full((2, 4), np.nan))).all()


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("rows", [1, 3])
def test_hardly_any_rows_give_a_tree_all_the_same(estimator, rows):
    fitted = estimator(**SEEDED).fit(np.full((rows, 2), 0.5), np.zeros(rows))
    assert np.isfinite(fitted.predict(np.zeros((1, 2)))).all()


def test_all_rows_dropped_still_gives_a_tree():
    fitted = DPRegressionForest(missing="drop", **SEEDED).fit(np.full((5, 2), np.nan), np.zeros(5))
    assert np.isfinite(fitted.predict(np.zeros((1, 2)))).all()


def test_ordered_categories_are_split_between_codes():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (2000, 1)).astype(float)
    fitted = DPRegressionTree(
        epsilon=50, categories=[4], target_bounds=(0, 1), noise="seeded", random_state=1, depth=3
    ).fit(X, (X[:, 0] >= 2).astype(float))
    np.testing.assert_allclose(fitted.predict([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1], atol=0.1)
    assert np.isfinite(fitted.predict([[9.0]])).all()  # not a category: missing


def test_bounds_must_be_declared_and_reading_them_from_the_data_warns(data):
    X, y = data
    with pytest.raises(ValueError, match="bounds"):
        DPRegressionTree(target_bounds=(0, 1)).fit(X, y)
    with pytest.raises(ValueError, match="target_bounds"):
        DPRegressionTree(bounds=(0, 1)).fit(X, y)
    with pytest.warns(NotPrivateWarning, match="not differentially private"):
        fitted = DPRegressionTree(bounds_from_data=True, noise="seeded", random_state=0).fit(X, y)
    assert "not private" in fitted.notice_
    assert fitted.privacy_spent_.epsilon == math.inf
    with pytest.raises(BudgetExceeded):
        DPRegressionTree(bounds_from_data=True, accountant=PrivacyAccountant(1.0)).fit(X, y)


def test_a_clone_spends_from_the_same_account(data):
    accountant = PrivacyAccountant(1.5)
    first = DPRegressionTree(accountant=accountant, **SEEDED)
    second = clone(first)
    first.fit(*data)
    with pytest.raises(BudgetExceeded):
        second.fit(*data)


def test_seeded_noise_says_that_it_protects_nobody(data):
    assert "protects nobody" in DPRegressionTree(**SEEDED).fit(*data).notice_
    with pytest.raises(ValueError, match="random_state"):
        DPRegressionTree(**BOUNDS, noise="seeded").fit(*data)


def test_secure_noise_is_the_default_and_says_so(data):
    fitted = DPRegressionTree(depth=1, **BOUNDS).fit(data[0][:50], data[1][:50])
    assert fitted.privacy_spent_.is_secure
    assert fitted.notice_ == ""


@pytest.mark.parametrize("kind", [{"relation": NeighboringRelation.REPLACE}, {"unit": PrivacyUnit.NODE}])
def test_an_account_that_counts_in_something_else_is_refused(kind, data):
    accountant = PrivacyAccountant(10.0, **kind)
    with pytest.raises(ValueError, match="accountant"):
        DPRegressionTree(accountant=accountant, **SEEDED).fit(*data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("criterion", "gini"),
        ("leaf", "mode"),
        ("missing", "mean"),
        ("depth", 21),
        ("leaf_share", 1.0),
        ("candidates", 255),
        ("noise", "none"),
        ("n_trees", 0),
        ("bounds", (1.0, 0.0)),
        ("bounds", (0.0, 1.0, "log")),
        ("target_bounds", (0.0, math.inf)),
    ],
)
def test_a_parameter_out_of_range_is_named(name, value, data):
    with pytest.raises(ValueError, match=name):
        DPRegressionForest(**{**SEEDED, name: value}).fit(*data)


def test_names_of_features_are_kept_and_bounds_go_by_name(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "size", "x", "z"])
    bounds = {"size": (0, 1), "age": (0.001, 1, "log"), "x": (0, 1), "z": (0, 1)}
    fitted = DPRegressionTree(**{**SEEDED, "bounds": bounds, "epsilon": 50}, depth=2).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == ["age", "size", "x", "z"]
    text = fitted.export_text()
    assert text.startswith("|--- age <= ")
    assert text.count("value") == 4
    with pytest.raises(ValueError, match="bounds"):
        DPRegressionTree(**{**SEEDED, "bounds": {"weight": (0, 1)}}).fit(frame, y)


def test_plot_draws_every_node_of_the_upper_levels(data):
    ax = DPRegressionTree(depth=2, **SEEDED).fit(*data).plot(max_depth=4)
    assert len(ax.texts) == 7
    assert len(DPRegressionTree(depth=4, **SEEDED).fit(*data).plot(max_depth=1).texts) == 3


@pytest.mark.parametrize("estimator", ALL)
def test_a_fitted_estimator_survives_pickling_and_an_unfitted_one_cloning(estimator, data):
    fitted = estimator(**SEEDED).fit(*data)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(data[0]), fitted.predict(data[0]))
    assert clone(fitted).get_params() == fitted.get_params()


def test_the_union_of_trees_predicts_their_mean(data):
    trees = [DPRegressionTree(leaf="mean", **{**SEEDED, "random_state": seed}).fit(*data) for seed in range(2)]
    forest = clone(trees[0]).fit(*data)
    forest.table_ = union([tree.table_ for tree in trees])
    np.testing.assert_allclose(forest.predict(data[0]), np.mean([tree.predict(data[0]) for tree in trees], axis=0))


@pytest.mark.parametrize("missing", ["wp", "drop"])
@pytest.mark.parametrize("estimator", ALL)
def test_no_record_can_make_a_fit_fail(estimator, missing, data):
    X, y = np.array(data[0][:60]), np.array(data[1][:60])
    X[0], y[1], y[2], y[3] = np.inf, np.inf, -np.inf, np.nan
    X[4, 0] = -np.inf
    model = estimator(missing=missing, **SEEDED)
    assert np.isfinite(model.fit(X, y).predict(data[0])).all()
    assert np.isfinite(model.fit(X[:0], y[:0]).predict(data[0])).all()


def test_a_target_without_end_counts_as_lying_on_its_bound(data):
    X, y = data
    on = DPRegressionTree(**SEEDED).fit(X, np.where(y > 0.5, 3.0, y))
    y = np.where(y > 0.5, np.inf, y)
    np.testing.assert_array_equal(DPRegressionTree(**SEEDED).fit(X, y).table_.value, on.table_.value)


@pytest.mark.long
@pytest.mark.parametrize("estimator", ALL)
def test_scikit_learns_checks_pass_but_those_that_want_an_error_for_a_record(estimator):
    weights = {"max_weight": 4.0} if "max_weight" in estimator().get_params() else {}
    declared = estimator(
        epsilon=1e3, bounds=(-10, 10), target_bounds=(-100, 100), noise="seeded", random_state=0, **weights
    )
    told = "an error would tell of a record"
    refused = {
        "check_estimators_empty_data_messages": told,
        "check_supervised_y_no_nan": told,
        "check_complex_data": told,
        **WEIGHTS,
    }
    results = check_estimator(declared, on_skip=None, on_fail=None, expected_failed_checks=refused)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped", "xfail")]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize("epsilon", [0.1, 4.0, 1000.0])
def test_a_tree_that_stands_alone_keeps_eight_records_a_leaf(data, epsilon):
    X, y = data
    given = {**SEEDED, "epsilon": epsilon, "n_declared": len(y)}
    alone = DPRegressionTree(**given).fit(X, y).plan_
    one_of_many = DPEnsembleTree(**given).fit(X, y).plan_
    assert 2**alone.depth <= len(y) / 8
    assert alone.depth <= one_of_many.depth
    assert one_of_many == DPRegressionForest(n_trees=1, **given).fit(X, y).plan_
    assert one_of_many.depth > alone.depth or epsilon < 1
