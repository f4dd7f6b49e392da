"""Boosting and naive Bayes as estimators: what they spend, what they refuse, what they learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant, PrivacyUnit
from fedlearn.private_trees import DPBoostingClassifier, DPBoostingRegressor, DPNaiveBayes, NotPrivateWarning
from tests.oracles.private_estimators import WEIGHTS

SEEDED = {"noise": "seeded", "random_state": 0}
CLASSES = {"bounds": (0, 10), "classes": ["no", "yes"], **SEEDED}
NUMBERS = {"bounds": (0, 10), "target_bounds": (-1, 1), **SEEDED}
ALL = [(DPBoostingClassifier, CLASSES), (DPNaiveBayes, CLASSES), (DPBoostingRegressor, NUMBERS)]
CLASSIFIERS = [kind for kind, declared in ALL if "classes" in declared]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (3000, 3))
    return X, np.sin(X[:, 0]), np.where(X[:, 1] > 5, "yes", "no")


def target_of(kind, data):
    return data[1] if kind is DPBoostingRegressor else data[2]


@pytest.mark.parametrize(("kind", "declared"), ALL)
@pytest.mark.parametrize("epsilon", [0.1, 3.0, np.inf])
def test_a_fit_spends_epsilon_and_no_more(kind, declared, epsilon, data):
    model = kind(epsilon=epsilon, **declared).fit(data[0], target_of(kind, data))
    assert model.privacy_spent_.epsilon == pytest.approx(epsilon)
    assert model.privacy_spent_.relation is NeighboringRelation.ADD_REMOVE
    assert not model.privacy_spent_.is_secure


@pytest.mark.parametrize(("kind", "declared"), ALL)
def test_an_account_is_asked_before_the_data_are_touched(kind, declared):
    account = PrivacyAccountant(0.5)
    with pytest.raises(BudgetExceeded):
        kind(epsilon=1.0, accountant=account, **declared).fit(object(), object())
    assert account.spent.epsilon == 0


@pytest.mark.parametrize(("kind", "declared"), ALL)
@pytest.mark.parametrize(
    "account",
    [PrivacyAccountant(9, NeighboringRelation.REPLACE), PrivacyAccountant(9, unit=PrivacyUnit.NODE)],
)
def test_an_account_of_another_kind_is_refused(kind, declared, account, data):
    with pytest.raises(ValueError, match="open an account"):
        kind(epsilon=1.0, accountant=account, **declared).fit(data[0], target_of(kind, data))


@pytest.mark.parametrize(("kind", "declared"), ALL)
def test_same_seed_same_bytes(kind, declared, data):
    first, second = (kind(epsilon=1.0, **declared).fit(data[0], target_of(kind, data)) for _ in range(2))
    show = "predict" if kind is DPBoostingRegressor else "predict_proba"
    assert getattr(first, show)(data[0][:50]).tobytes() == getattr(second, show)(data[0][:50]).tobytes()


cells = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(["x", "", "3"]))


@pytest.mark.parametrize(("kind", "declared"), ALL)
@given(st.lists(st.tuples(cells, cells, st.one_of(st.floats(), st.just(0.5))), max_size=6))
def test_no_record_makes_a_fit_fail(kind, declared, rows):
    X = np.empty((len(rows), 2), object)
    for row, values in zip(X, rows, strict=True):
        row[:] = values[:2]
    y = np.array([values[2] for values in rows], np.float64)
    model = kind(epsilon=1.0, **declared).fit(X, y)  # of classes: none of these labels is one
    assert model.privacy_spent_.epsilon == pytest.approx(1.0)
    assert len(model.predict(np.array([[1.0, None], ["?", np.inf]], object))) == 2


@pytest.mark.parametrize(("kind", "declared"), ALL)
def test_a_record_without_a_valid_target_is_as_if_it_were_not_there(kind, declared, data):
    X, y = data[0], target_of(kind, data)
    more = np.array([np.nan]) if kind is DPBoostingRegressor else np.array(["other"])
    plain = kind(epsilon=1.0, **declared).fit(X, y)
    longer = kind(epsilon=1.0, **declared).fit(np.vstack([X, X[:1]]), np.concatenate([y, more]))
    np.testing.assert_array_equal(plain.predict(X[:99]), longer.predict(X[:99]))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_shares_are_probabilities_in_the_order_of_the_classes(kind, data):
    model = kind(epsilon=1.0, **CLASSES).fit(data[0], data[2])
    shares = model.predict_proba(data[0][:200])
    assert shares.sum(axis=1) == pytest.approx(np.ones(200))
    assert model.classes_.tolist() == ["no", "yes"]
    assert ((shares[:, 1] > 0.5) == (data[0][:200, 1] > 5)).mean() > 0.9


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_three_classes_are_told_apart(kind, data):
    X = data[0]
    y = np.digitize(X[:, 0], [3, 7])
    model = kind(epsilon=2.0, bounds=(0, 10), classes=[0, 1, 2], **SEEDED).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.75


def test_boosting_learns_a_product_of_two_columns_which_no_sum_of_columns_is(data):
    X = data[0]
    y = np.sign(X[:, 0] - 5) * np.sign(X[:, 1] - 5)
    errors = [
        np.abs(DPBoostingRegressor(epsilon=5.0, interactions=both, **NUMBERS).fit(X, y).predict(X) - y).mean()
        for both in (True, False)
    ]
    assert errors[0] < 0.3 < 0.8 < errors[1]


def test_more_epsilon_is_better_on_average(data):
    X, y = data[:2]
    errors = [
        np.mean([np.abs(DPBoostingRegressor(epsilon=e, **NUMBERS | {"random_state": s}).fit(X, y).predict(X) - y).mean()
                 for s in range(3)])
        for e in (0.05, 1.0, 20.0)
    ]  # fmt: skip
    assert errors[0] > errors[1] > errors[2]


def test_that_a_value_is_missing_may_say_something():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (2000, 1))
    X[::2] = np.nan
    model = DPBoostingClassifier(epsilon=1.0, **CLASSES).fit(X, np.where(np.isnan(X[:, 0]), "yes", "no"))
    assert model.predict([[np.nan], [5.0]]).tolist() == ["yes", "no"]


def test_predictions_of_numbers_lie_inside_the_bounds(data):
    model = DPBoostingRegressor(epsilon=0.01, **NUMBERS).fit(data[0], data[1] * 100)
    assert np.abs(model.predict(data[0])).max() <= 1


@pytest.mark.parametrize(("kind", "declared"), ALL)
@pytest.mark.parametrize("what", ["bounds", "classes", "target_bounds", "epsilon", "random_state"])
def test_what_is_not_declared_is_asked_for_by_name(kind, declared, what, data):
    if what == "epsilon":
        declared = declared | {"epsilon": 0}
    elif what in declared:
        declared = declared | {what: None}
    else:
        return
    with pytest.raises(ValueError, match=what):
        kind(**{"epsilon": 1.0} | declared).fit(data[0], target_of(kind, data))


@pytest.mark.parametrize("kind", [kind for kind, _ in ALL])
def test_bounds_of_the_data_cost_everything(kind, data):
    with pytest.warns(NotPrivateWarning):
        model = kind(epsilon=1.0, bounds_from_data=True, **SEEDED).fit(data[0], target_of(kind, data))
    assert model.privacy_spent_.epsilon == np.inf
    assert "not private" in model.notice_


def test_secure_noise_is_said_to_be_so(data):
    model = DPNaiveBayes(epsilon=1.0, bounds=(0, 10), classes=["no", "yes"]).fit(data[0][:100], data[2][:100])
    assert model.privacy_spent_.is_secure and model.notice_ == ""


@pytest.mark.parametrize("kind", [kind for kind, _ in ALL])
def test_scikit_learns_checks_pass_but_those_that_want_an_error_for_a_record(kind):
    told = "an error would tell of a record"
    refused = {
        "check_estimators_empty_data_messages": told,
        "check_supervised_y_no_nan": told,
        "check_complex_data": told,
        **WEIGHTS,
    }
    numbers = {"bounds": (-10, 10), "target_bounds": (-100, 100)}
    declared = {"bounds_from_data": True} if kind in CLASSIFIERS else numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            kind(epsilon=1e3, **declared, **SEEDED, max_weight=4.0),
            on_skip=None,
            on_fail=None,
            expected_failed_checks=refused,
        )
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped", "xfail")]
    assert failed == []
