"""The printed random forest's real loss: less than it claims by counts, more with every row by drawn labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.private_trees.as_printed import PrintedRandomForest
from fedlearn.auditing.replay import replay
from fedlearn.auditing.trees.classes_replays import fits_of
from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from tests.unit.private_trees.classes.private_classifiers import SIZES, examples


def printed(mechanism, epsilon=1.0, **changes):
    declared = {"categories": SIZES, "classes": ["no", "yes"], "noise": "seeded", "random_state": 3}
    return PrintedRandomForest(epsilon=epsilon, mechanism=mechanism, **{**declared, **changes})


@pytest.mark.parametrize("missing", ["wp", "drop"])
@pytest.mark.parametrize("mechanism", ["laplace", "exponential"])
def test_much_budget_learns_the_rule(mechanism, missing):
    X, y = examples(missing=0.1)
    model = printed(mechanism, 1e4, missing=missing).fit(X, y)
    complete, labels = examples(seed=1)
    assert (model.predict(complete) == labels).mean() > 0.9
    with_gaps, _ = examples(missing=0.5, seed=2)
    np.testing.assert_allclose(model.predict_proba(with_gaps).sum(axis=1), 1)


@pytest.mark.parametrize("classes", [["no", "yes"], ["no", "yes", "perhaps"]])
def test_counts_cost_the_claim_over_the_number_of_classes(classes):
    X, y = examples()
    account = PrivacyAccountant(1.0)
    model = printed("laplace", classes=classes, accountant=account).fit(X, y)
    assert model.privacy_spent_.epsilon == pytest.approx(1 / len(classes))
    assert account.remaining == pytest.approx(1 - 1 / len(classes))


def of_counts(epsilon, *, classes, **settings):
    return PrintedRandomForest(epsilon=epsilon * len(classes), mechanism="laplace", classes=classes, **settings)


def options(rng):
    return {"max_depth": int(rng.integers(3)), "n_estimators": int(rng.integers(1, 4))}


def test_what_counts_report_holds_in_exact_replays_and_is_all_that_they_give():
    result = replay("counts", fits_of(of_counts, options), pairs=100, seed=1)
    assert 0.999 < result.largest <= 1 + 1e-6, str(result)


def of_draws(rows):
    """Return a forest whose predictions of so many rows are published, such that they may lose the claim."""

    class Asked(PrintedRandomForest):
        def fit(self, X, y):
            super().fit(X, y)
            self.said_ = self.predict_proba(np.zeros((rows, X.shape[1])))
            del self._counts_  # the labels are published, and not what they are drawn from
            return self

    def made(epsilon, *, classes, **settings):
        return Asked(epsilon=2 * len(classes) * epsilon / rows, mechanism="exponential", classes=classes, **settings)

    return fits_of(made, options)


def test_drawn_labels_lose_by_the_row_and_no_more_than_is_said():
    largest = [replay("draws", of_draws(rows), pairs=100, seed=1).largest for rows in (1, 5)]
    assert all(0.5 < share <= 1 + 1e-6 for share in largest), largest


def test_labels_drawn_for_many_rows_tell_of_a_record_more_than_the_claim():
    one, rows = np.zeros((1, 3)), 2000
    model = printed("exponential", 1.0, max_depth=0, n_estimators=1)
    shares = [model.fit(np.repeat(one, n, axis=0), ["no"] * n).predict_proba(np.zeros((rows, 3)))[:, 0] for n in (0, 4)]
    before, after = (share.mean() for share in shares)
    told = rows * (after * math.log(after / before) + (1 - after) * math.log((1 - after) / (1 - before)))
    # In the mean, of all four records; one of them gives away a quarter, or more.
    assert told / 4 > 10 * model.epsilon
    assert model.loss_of(rows) == rows / 4


def test_no_finite_account_pays_for_drawn_labels():
    X, y = examples()
    model = printed("exponential", accountant=PrivacyAccountant(1e6))
    with pytest.raises(BudgetExceeded):
        model.fit(X, y)
    fitted = printed("exponential").fit(X, y)
    assert fitted.privacy_spent_.epsilon == math.inf
    assert "NOT PRIVATE" in fitted.privacy_spent_.lines[0].what


def test_the_same_seed_says_the_same_again_and_secure_noise_does_not():
    X, y = examples()
    seeded, secure = (printed("exponential", 0.01, noise=noise).fit(X, y) for noise in ("seeded", "secure"))
    np.testing.assert_array_equal(seeded.predict_proba(X), seeded.predict_proba(X))
    assert (secure.predict_proba(X) != secure.predict_proba(X)).any()


def test_nothing_of_the_counts_is_in_the_trees_where_labels_are_drawn():
    X, y = examples()
    table = printed("exponential").fit(X, y).table_
    np.testing.assert_array_equal(table.value, 0.5)


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("mechanism", "magic"), ("n_estimators", 0)])
def test_a_parameter_out_of_range_is_named(name, value):
    X, y = examples()
    with pytest.raises(ValueError, match=f"{name} = "):
        printed(**{"mechanism": "laplace", name: value}).fit(X, y)
