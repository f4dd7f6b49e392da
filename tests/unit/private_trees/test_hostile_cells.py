"""No cell of one record can make a fit fail, or warn: that would reveal the record."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier

from fedlearn import private_trees as trees
from fedlearn.auditing.pairs import public_of
from fedlearn.auditing.replay import as_bytes
from fedlearn.private_trees import PrivateSearch
from fedlearn.private_trees.classes.classifier import PrivateClassifier

SEEDED = {"noise": "seeded", "random_state": 0}
BY_CATEGORY = {"categories": [3, 3], "classes": ["no", "yes"], **SEEDED}
BY_NUMBER = {"bounds": (0, 3), **SEEDED}
NAMES = [name for name in trees.__all__ if hasattr(getattr(trees, name), "fit") and name != "PrivateSearch"]
GRIDS = {"DPBoostingRegressor": {"n_rounds": [1]}}


class Unlike:
    """A cell that cannot be compared, and is no number."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other):
        raise RuntimeError("secret diagnosis")

    def __float__(self):
        raise OverflowError("secret number")

    def __len__(self):
        raise RuntimeError("secret length")


class Unhashed(Unlike):
    """One that cannot be hashed, for a reason of its own."""

    def __hash__(self):
        raise RuntimeError("secret hash")

    def __ne__(self, other):
        return False


HOSTILE = {
    "text": "HIV-positive since 2019",
    "a list": [1, 2],
    "an array": np.array([1.0, 2.0]),
    "a mapping": {"a": 1},
    "a complex number": 1j,
    "a complex number of numpy": np.complex64(1 + 1j),
    "a number that signals": Decimal("sNaN"),
    "an array of one": np.array([1.0]),
    "what cannot be compared": Unlike(),
    "what cannot be hashed": Unhashed(),
    "missing in pandas": pd.NA,
    "no time": pd.NaT,
    "bytes": b"\xff",
    "a type": dict,
}
BEYOND = [10**400, -(10**400), np.inf, -np.inf]


def made(name):
    kind = getattr(trees, name)
    if issubclass(kind, PrivateClassifier):
        return kind(epsilon=1.0, **BY_CATEGORY)
    if is_classifier(kind()):
        return kind(epsilon=1.0, classes=["no", "yes"], **BY_NUMBER)
    return kind(epsilon=1.0, target_bounds=(0, 1), **BY_NUMBER)


def data(model, rows=30):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (rows, 2)).astype(float).astype(object)
    share = rng.random(rows)
    return X, np.where(share < 0.4, "no", "yes").astype(object) if is_classifier(model) else share.astype(object)


def filled(table, cells, *, column=None):
    """Return a copy with these cells in the first rows."""
    table = table.copy()
    place = np.empty(len(cells), object)
    for row, cell in enumerate(cells):
        place[row] = cell
    table[: len(cells)] = place if column is None else np.column_stack([table[: len(cells), 1 - column], place])
    return table


def published(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return as_bytes({name: value for name, value in public_of(model.fit(X, y)).items() if name[-7:] != "names_in_"})


@pytest.mark.parametrize("form", [pd.DataFrame, np.asarray], ids=["frame", "array"])
@pytest.mark.parametrize("name", NAMES)
def test_a_cell_that_is_nothing_counts_as_missing(name, form):
    X, y = data(made(name))
    for of_target in (True, False):
        bytes_of = []
        for cells in ([None] * len(HOSTILE), [*HOSTILE.values()]):
            given = (X, filled(y, cells)) if of_target else (filled(X, cells, column=1), y)
            bytes_of.append(published(made(name), form(given[0]), given[1]))
        assert bytes_of[0] == bytes_of[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_beyond_all_bounds_makes_no_fit_fail(name):
    X, y = data(made(name))
    published(made(name), filled(X, BEYOND, column=1), y)
    published(made(name), X, filled(y, BEYOND))


@pytest.mark.parametrize("form", [pd.DataFrame, np.asarray], ids=["frame", "array"])
@pytest.mark.parametrize("name", NAMES)
def test_one_complex_number_changes_no_other_record(name, form):
    """It makes all numbers beside it complex, and an error would show them."""
    X, y = data(made(name))
    X = X.astype(float)
    targets = (y == "yes").astype(float) if is_classifier(made(name)) else y.astype(float)
    model = made(name).set_params(classes=[0.0, 1.0]) if is_classifier(made(name)) else made(name)
    missing, odd = X.copy(), X.astype(complex)
    missing[0, 1], odd[0, 1] = np.nan, 1j
    assert published(clone(model), form(missing), targets) == published(clone(model), form(odd), targets)
    missing, odd = targets.copy(), targets.astype(complex)
    missing[0], odd[0] = np.nan, 1 + 1j
    for kind in (np.asarray, pd.Series, list):
        assert published(clone(model), form(X), kind(missing)) == published(clone(model), form(X), kind(odd))
    model.fit(form(X), targets).predict(form(X.astype(complex)))


@pytest.mark.parametrize("name", ["DPRegressionTree", "DPClassificationTree", "DPBoostingRegressor"])
def test_a_search_scores_such_records_too(name):
    X, y = data(made(name), rows=60)
    cells = 2 * [*HOSTILE.values(), *BEYOND]  # some of them are scored on
    estimator = made(name).set_params(random_state=None, noise="secure")
    search = PrivateSearch(estimator=estimator, grid=GRIDS.get(name, {"missing": ["wp"]}), **SEEDED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(search.fit(filled(X, cells, column=1), filled(y, cells)).predict(X)) == 60
