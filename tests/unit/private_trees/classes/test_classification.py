from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier
from fedlearn.private_trees.domain import NotPrivateWarning
from fedlearn.private_trees.node_table import level_of_nodes
from tests.oracles import categorical_trees as oracle
from tests.oracles.private_estimators import WEIGHTS
from tests.unit.private_trees.classes.private_classifiers import MAKERS, SIZES, examples, made

NAMES = list(MAKERS)


class Untouchable:
    """Data that raise an error when they are read."""

    def __getattribute__(self, name):
        raise AssertionError(f"the data was touched: {name}")


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_the_budget_sum_to_epsilon(name):
    X, y = examples()
    spent = made(name, 0.7).fit(X, y).privacy_spent_
    assert spent.epsilon == pytest.approx(0.7, rel=1e-12)
    assert math.fsum(line.epsilon for line in spent.lines) == pytest.approx(0.7, rel=1e-12)
    assert (spent.relation, spent.unit) == (NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD)
    assert not spent.is_secure  # seeded noise


@pytest.mark.parametrize("name", NAMES)
def test_a_spent_accountant_refuses_before_the_data_is_touched(name):
    accountant = PrivacyAccountant(1.0)
    accountant.spend(0.5, what="something else")
    with pytest.raises(BudgetExceeded):
        made(name, 0.6, accountant=accountant).fit(Untouchable(), Untouchable())
    assert accountant.remaining == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_an_accountant_is_charged_what_is_reported(name):
    accountant = PrivacyAccountant(1.0)
    X, y = examples()
    made(name, 0.6, accountant=accountant).fit(X, y)
    assert accountant.remaining == pytest.approx(0.4)


def test_input_of_the_wrong_form_costs_nothing():
    accountant = PrivacyAccountant(1.0)
    X, y = examples()
    with pytest.raises(ValueError, match="400 rows and y 399"):
        made("edprf same", accountant=accountant).fit(X, y[:-1])
    assert accountant.remaining == 1.0


@pytest.mark.parametrize("kind", [{"relation": NeighboringRelation.REPLACE}, {"unit": PrivacyUnit.NODE}])
@pytest.mark.parametrize("name", NAMES)
def test_an_account_that_counts_in_something_else_is_refused(name, kind):
    with pytest.raises(ValueError, match="open an account of that kind"):
        made(name, accountant=PrivacyAccountant(10.0, **kind)).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize("missing", ["wp", "drop"])
@pytest.mark.parametrize("name", NAMES)
def test_no_record_can_make_a_fit_fail(name, missing):
    X, y = examples(60)
    X[0], y = [np.inf, -np.inf, np.nan], y.astype(object)
    y[1:4] = "not declared", None, np.nan
    model = made(name, missing=missing)
    assert np.isfinite(model.fit(X, y).predict_proba(X)).all()
    assert np.isfinite(model.fit(X[:0], y[:0]).predict_proba(X)).all()


def test_one_record_more_than_was_declared_is_no_error_and_changes_no_more_than_any_other():
    X, y = examples(401)
    told = {"criterion": "information_gain", "max_records": 400, "max_depth": 1}
    for rows in (400, 401):
        model = made("tree exponential", 50.0, **told).fit(X[:rows], y[:rows])
        assert model.table_.feature[0] == 1
        assert model.privacy_spent_.epsilon == 50.0


def test_text_where_numbers_were_declared_counts_as_missing():
    X, y = examples(60)
    written = X.astype(object)
    written[0, 0], X[0, 0] = "HIV-positive since 2019", np.nan
    np.testing.assert_array_equal(
        made("tree laplace").fit(written, y).table_.value, made("tree laplace").fit(X, y).table_.value
    )


def test_a_row_whose_label_is_not_declared_is_left_out():
    X, y = examples(60)
    y = np.where(np.arange(60) < 5, "neither", y)
    whole, rest = made("tree laplace").fit(X, y), made("tree laplace").fit(X[5:], y[5:])
    np.testing.assert_array_equal(whole.table_.value, rest.table_.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("missing", ["wp", "drop"])
def test_much_budget_learns_the_rule_and_probabilities_sum_to_one(name, missing):
    X, y = examples(missing=0.1)
    model = made(name, 50.0, missing=missing, max_depth=3).fit(X, y)
    complete, labels = examples(seed=1)
    # A random tree always meets the second feature on a path of three of three features.
    assert (model.predict(complete) == labels).mean() > 0.9
    with_gaps, _ = examples(missing=0.5, seed=2)
    np.testing.assert_allclose(model.predict_proba(with_gaps).sum(axis=1), 1)
    assert (model.predict_proba(with_gaps) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.01, math.inf])
def test_any_epsilon_gives_a_table_that_the_gate_accepts(name, epsilon):
    X, y = examples(60, missing=0.3)
    model = made(name, epsilon).fit(X, y)
    model.table_.validate(num_features=3, outputs=2, value_bounds=(0.0, 1.0), max_depth=3, categories=SIZES)
    np.testing.assert_allclose(model.table_.value.sum(axis=1), 1)


@pytest.mark.parametrize("name", NAMES)
def test_all_values_missing_and_no_complete_record_still_give_an_answer(name):
    X, y = examples(20)
    empty = np.full_like(X, np.nan)
    for missing in ("wp", "drop"):
        model = made(name, missing=missing).fit(empty, y)
        assert set(model.predict(empty)) <= {"no", "yes"}


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_table_and_a_pickled_model_predicts_the_same(name):
    X, y = examples(missing=0.2)
    first, again = made(name).fit(X, y), clone(made(name)).fit(X, y)
    np.testing.assert_array_equal(first.table_.value, again.table_.value)
    restored = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(restored.predict_proba(X), first.predict_proba(X))


@pytest.mark.parametrize("name", ["tree laplace", "forest exponential disjoint", "edprf same"])
def test_secure_noise_differs_from_fit_to_fit_and_says_so(name):
    X, y = examples()
    models = [made(name, 0.05, noise="secure", random_state=1).fit(X, y) for _ in range(3)]
    assert all(model.privacy_spent_.is_secure for model in models)
    tables = {model.table_.value.tobytes() + model.table_.feature.tobytes() for model in models}
    assert len(tables) > 1


@pytest.mark.parametrize("mechanism", ["laplace", "exponential", "permute_and_flip"])
@pytest.mark.parametrize("criterion", ["max", "gini", "information_gain"])
def test_without_noise_all_mechanisms_grow_the_id3_tree_of_the_oracle(mechanism, criterion):
    X, y = examples(150)
    model = made(f"tree {mechanism}", math.inf, criterion=criterion, max_depth=2, max_records=1000).fit(X, y)
    expected = oracle.best_tree(
        X.astype(int).tolist(), (y == "yes").astype(int), SIZES, 2, depth=2, criterion=criterion
    )
    table = model.table_

    def as_tuples(node):
        if table.feature[node] < 0:
            return ()
        children = range(table.first_child[node], table.first_child[node] + table.num_children[node])
        return (int(table.feature[node]), tuple(as_tuples(child) for child in children))

    assert as_tuples(0) == expected


def test_a_random_forest_has_the_same_structure_whatever_the_data_and_epsilon():
    X, y = examples()
    one = made("forest laplace disjoint").fit(X, y).table_
    other = made("forest laplace disjoint", 9.0).fit(X[::-2], y[::2]).table_
    np.testing.assert_array_equal(one.feature, other.feature)


def test_a_record_without_a_value_votes_for_all_children_or_not_at_all():
    X, y = examples(2000)
    model = made("tree labels", math.inf, max_depth=1).fit(X, y)
    assert model.table_.feature[0] == 1
    lacking = np.array([[0.0, np.nan, 0.0]])
    np.testing.assert_allclose(model.predict_proba(lacking), [[2 / 3, 1 / 3]])  # two of the three children say "no"
    model.missing = "drop"
    np.testing.assert_allclose(model.predict_proba(lacking), [[2 / 3, 1 / 3]])  # what the root holds: their mean


def test_declared_class_weights_move_the_majority_and_never_weigh_more_than_one():
    X, y = examples(500)
    plain = made("tree permute_and_flip", math.inf, max_depth=0).fit(X, y)  # a root alone: the majority
    tipped = made("tree permute_and_flip", math.inf, max_depth=0, class_weight={"no": 0.01, "yes": 3.0}).fit(X, y)
    seen = set(plain.predict(X)), set(tipped.predict(X))
    assert seen == ({"no"}, {"yes"})
    assert tipped._class_weights().max() == 2**24


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": 0.0}, "epsilon = 0.0"),
        ({"missing": "guess"}, "missing = 'guess'"),
        ({"noise": "loud"}, "noise = 'loud'"),
        ({"random_state": None}, "random_state is None"),
        ({"classes": None}, "classes is not declared"),
        ({"categories": None}, "needs categories="),
        ({"max_depth": -1}, "max_depth = -1"),
        ({"mechanism": "magic"}, "mechanism = 'magic'"),
        ({"criterion": "information_gain"}, "max_records is not declared"),
        ({"criterion": "information_gain", "max_records": 0}, "max_records = 0"),
        ({"class_weight": {"no": 0.0, "yes": 1.0}}, "class_weight"),
    ],
)
def test_a_wrong_setting_is_named(changes, says):
    X, y = examples()
    with pytest.raises(ValueError, match=says):
        made("tree exponential", **changes).fit(X, y)


def test_frames_of_strings_keep_their_names_and_refuse_others():
    frame = pd.DataFrame({"color": ["red", "green", None, "red"] * 20, "size": ["s", "l", "s", None] * 20})
    labels = ["a", "b", "b", "a"] * 20
    declared = {"color": ["green", "red"], "size": ["s", "l"]}
    model = DPClassificationTree(epsilon=20.0, categories=declared, classes=["a", "b"], noise="seeded", random_state=0)
    model.fit(frame, labels)
    assert model.feature_names_in_.tolist() == ["color", "size"]
    assert (model.predict(frame) == labels).mean() >= 0.75
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["size", "color"]])


def test_taking_the_declaration_from_the_data_is_marked_as_not_private():
    X, y = examples()
    model = made("forest laplace same", categories=None, classes=None, bounds_from_data=True)
    with pytest.warns(NotPrivateWarning):
        model.fit(X, y)
    assert model.privacy_spent_.epsilon == math.inf
    assert "NOT PRIVATE" in model.privacy_spent_.lines[0].what


def test_levels_of_the_report_are_levels_of_the_tree():
    X, y = examples()
    model = made("tree permute_and_flip", max_depth=2).fit(X, y)
    levels = level_of_nodes(model.table_)
    assert [line.level for line in model.privacy_spent_.lines] == sorted(set(levels.tolist()))


@pytest.mark.parametrize("declared", [{}, {"bounds": (-10, 10)}], ids=["nothing", "bounds"])
@pytest.mark.parametrize("kind", [DPClassificationTree, DPRandomForestClassifier])
def test_scikit_learn_conventions_hold(kind, declared):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            kind(
                epsilon=10.0, **declared, noise="seeded", random_state=0, max_weight=4.0, bounds_from_data=True
            ),  # of the classes
            on_fail=None,
            on_skip=None,
            expected_failed_checks={"check_complex_data": "an error would tell of a record", **WEIGHTS},
        )
    failed = {r["check_name"]: str(r["exception"])[:200] for r in results if r["status"] == "failed"}
    assert failed == {}
