"""Boosted trees of exact sums: those of uneven nodes are those of one table, and those of scikit-learn on its bins."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from fedlearn.config import config_from
from fedlearn.core.errors import Refused, SettingError, UsageError
from fedlearn.core.state import layout_of
from fedlearn.data import from_frame
from fedlearn.models import load_model
from fedlearn.models.model import Condensing, Finishing, Summed
from fedlearn.private_trees.exact import fit

SMALL = {"max_iter": 4, "max_depth": 3, "min_samples_leaf": 5, "max_bins": 16}
CASES = {
    "two classes": ("two", {}),
    "three classes, few leaves": ("three", {"max_leaf_nodes": 4}),
    "a number": ("number", {"l2_regularization": 1.0}),
    "weights": ("number", {"weights": "times"}),
    "counts": ("count", {"loss": "poisson"}),
    "drawn rows and columns": ("two", {"subsample": 0.5, "max_features": 0.5}),
    "constraints": ("number", {"monotonic_cst": {"a": 1, "b": -1}}),
}


@cache
def frame(rows=400):
    """Return made rows with missing values: columns of numbers and words, and one target of each kind."""
    rng = np.random.default_rng(1)
    a, b, c = rng.random(rows), rng.uniform(0, 10, rows), rng.choice(["red", "green", "blue", "white"], rows)
    truth = 3 * a - 0.2 * b + 2 * np.isin(c, ["red", "blue"]) + rng.normal(0, 0.3, rows)
    made = pd.DataFrame({"a": a, "b": b, "c": c, "times": rng.integers(0, 4, rows).astype(float)})
    made.loc[rng.random(rows) < 0.1, "a"] = np.nan
    made.loc[rng.random(rows) < 0.1, "c"] = None
    return made.assign(
        two=np.where(truth > 2, "yes", "no"),
        three=np.array(["low", "mid", "high"])[np.digitize(truth, [1, 3])],
        number=truth,
        count=rng.poisson(np.exp(truth / 3)).astype(float),
    )


CLASSES = {"two": ["no", "yes"], "three": ["low", "mid", "high"]}


def table(target, rows=None):
    of_target = {"classes": CLASSES[target]} if target in CLASSES else {"target_bounds": BOUNDS[target]}
    return from_frame(
        (frame() if rows is None else rows)[["a", "b", "c", "times", target]], target=target, test_share=0,
        bounds={"a": (0, 1), "b": (0, 10), "times": (0, 3)},
        categories={"c": ["red", "green", "blue", "white"]}, **of_target,
    )  # fmt: skip


BOUNDS = {"number": (-4, 8), "count": (0, 30)}


def model_of(target, **options):
    return load_model("exact-boosting", table(target).spec, json.dumps(SMALL | options))


def shards(examples, clients):
    """Return uneven parts, one of them empty, and one of a single class, or of the smallest targets."""
    order = np.argsort(examples.targets, kind="stable")
    parts = [order[:50], *np.split(np.random.default_rng(2).permutation(order[50:]), [0, 7, 40, 100, 150, 160])]
    return [examples.at(rows) for rows in parts] if clients == 8 else [examples.at(order[:50]), examples.at(order[50:])]


def grown_by(model, parts):
    """Return the final state of several nodes, each with a model of its own, as processes have."""
    config = config_from({"clients": len(parts), "seed": 3})
    nodes = [model.planned(config) for _ in parts]
    server = model.planned(config)
    state = server.initial_state(seed=1)
    while not server.finished(state).why:
        for node in nodes:
            node.check_state(state)
        sums = sum(node.asked(state, part) for node, part in zip(nodes, parts, strict=True))
        server.check_sums({"sums": sums, "reports": np.ones(1, np.int64)}, before=layout_of(state), max_examples=1000)
        reports = np.append(state["reports"], len(parts))
        state = server.condensed({**state, "sums": np.append(state["sums"], sums), "reports": reports})
    return state


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in {*one} - {"reports"})


@pytest.mark.parametrize("case", CASES)
def test_trees_of_uneven_nodes_are_those_of_one_table(case):
    target, options = CASES[case]
    model, rows = model_of(target, **options), table(target).train
    pooled = grown_by(model, [rows])
    assert (pooled["child"] >= 0).any() and len(pooled["sums"]) == 0
    assert same(grown_by(model, shards(rows, 2)), pooled)
    assert same(grown_by(model, [*shards(rows, 8), rows.at(slice(0, 0))]), pooled)
    order = np.random.default_rng(5).permutation(len(rows))
    assert same(grown_by(model, [rows.at(order)]), pooled)


@pytest.mark.parametrize(
    ("case", "nodes"),
    [
        pytest.param(case, nodes, marks=[] if (case, nodes) == ("two classes", 40) else pytest.mark.long)
        for case in CASES
        for nodes in (40, 200)
    ],
)
def test_scores_of_many_uneven_nodes_are_those_of_one_table(case, nodes):
    target, options = CASES[case]
    model, data = model_of(target, **options), table(target, frame(1000))
    rng, rows, order = np.random.default_rng(nodes), data.train, np.argsort(data.train.targets, kind="stable")
    ends = np.sort(rng.integers(30, len(rows), nodes - 3))
    parts = [rows.at(order[:0]), rows.at(order[:30]), *(rows.at(part) for part in np.split(order, [30, *ends])[1:])]
    sizes = [len(part) for part in parts]
    assert len(parts) == nodes and sum(sizes) == len(rows) and min(sizes) == 0 and max(sizes) > 3 * np.mean(sizes)
    if target in CLASSES:
        assert len({*parts[1].targets.tolist()}) == 1
    pooled, apart = model.score(grown_by(model, [rows]), rows.inputs), grown_by(model, parts)
    assert np.abs(model.score(apart, rows.inputs) - pooled).max() == 0.0 and np.ptp(pooled) > 0


@pytest.mark.parametrize(
    ("target", "more"), [("two", {}), ("number", {}), ("number", {"monotonic_cst": {"a": 1, "b": -1}})]
)
@pytest.mark.parametrize("leaves", [4, 31])
def test_scores_are_those_of_scikit_learn_on_the_same_bins(target, more, leaves):
    rows = frame().drop(columns=["c"]).assign(c="red")
    data = table(target, rows)
    options = SMALL | {"max_iter": 10, "max_depth": 4, "max_leaf_nodes": leaves, "max_bins": 64}
    mine = fit(data, **options, **more)
    inputs = data.train.inputs[:, :3]
    codes = np.column_stack([np.searchsorted(e, inputs[:, c], side="left") for c, e in enumerate(mine.edges_)])
    X = np.where(np.isnan(inputs), np.nan, codes)
    kind = HistGradientBoostingClassifier if target in CLASSES else HistGradientBoostingRegressor
    signs = {"monotonic_cst": [more["monotonic_cst"].get(name, 0) for name in ("a", "b", "times")]} if more else {}
    theirs = kind(early_stopping=False, **options | {"max_bins": 255} | signs).fit(X, data.train.targets)
    scores = theirs.decision_function(X) if target in CLASSES else theirs.predict(X)
    np.testing.assert_allclose(mine.decision_function(rows), scores, atol=2e-4)


def test_missing_values_go_where_the_loss_is_lower():
    for high in (True, False):
        rows = pd.DataFrame(
            {"a": [*np.linspace(0, 1, 60), *[np.nan] * 30], "number": [0.0] * 30 + [1.0] * 30 + [float(high)] * 30}
        )
        data = from_frame(rows, target="number", target_bounds=(0, 1), bounds={"a": (0, 1)}, test_share=0)
        trees = fit(data, max_iter=1, max_depth=1, learning_rate=1.0)
        assert trees.predict(pd.DataFrame({"a": [0.1, np.nan, 0.9]})).round(6).tolist() == [0.0, float(high), 1.0]


def test_a_prediction_never_falls_where_a_constraint_says_so():
    rows = pd.DataFrame({"a": np.linspace(0, 1, 200)}).assign(number=lambda each: np.sin(9 * each.a))
    data = from_frame(rows, target="number", target_bounds=(-1, 1), bounds={"a": (0, 1)}, test_share=0)
    free, bound = (fit(data, max_iter=20, monotonic_cst=signs) for signs in ({}, {"a": 1}))
    assert (np.diff(free.predict(rows)) < 0).any() and (np.diff(bound.predict(rows)) >= 0).all()


def test_a_record_of_weight_three_counts_as_three_records():
    rows = frame().assign(a=frame().a.round(1), b=frame().b.round()).query("times > 0")
    often = rows.loc[rows.index.repeat(rows.times.astype(int))].assign(times=1.0)
    one, other = (
        fit(table("number", each), **SMALL | {"min_samples_leaf": 1}, weights="times") for each in (rows, often)
    )
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), atol=1e-6)
    assert np.ptp(one.predict(rows)) > 0.5


def test_a_fit_reads_like_an_estimator():
    trees = fit(table("two"), **SMALL)
    shares = trees.predict_proba(frame())
    assert (trees.predict(frame()) == np.where(shares[:, 1] > 0.5, "yes", "no")).all()
    assert (trees.predict(frame()) == frame().two).mean() > 0.8
    assert (
        abs(sum(trees.importances().values()) - 1) < 1e-12
        and max(trees.importances(), key=trees.importances().get) in "ac"
    )
    text = trees.export_text(tree=0)
    assert text.startswith("|--- ") and "value: " in text and ("or missing" in text or "missing}" in text)
    assert trees.plot(tree=1).texts and "promise" in trees.notice_
    three = fit(table("three"), **SMALL)
    assert three.predict_proba(frame()).shape == (400, 3) and three.decision_function(frame()).shape == (400, 3)
    assert "low: " in three.export_text(tree=0)


@pytest.mark.skipif(not find_spec("xgboost"), reason="xgboost is not installed")
@pytest.mark.parametrize("target", ["two", "three", "number", "count"])
def test_xgboost_has_the_same_scores(target, tmp_path):
    import xgboost

    trees = fit(table(target), **SMALL, loss="poisson" if target == "count" else "auto")
    trees.to_xgboost(tmp_path / "model.json")
    booster = xgboost.Booster(model_file=tmp_path / "model.json")
    words = {"red": 0, "green": 1, "blue": 2, "white": 3}
    X = frame()[["a", "b", "times"]].assign(c=pd.Categorical(frame().c.map(words), categories=range(4)))
    scores = booster.predict(xgboost.DMatrix(X, enable_categorical=True), output_margin=True)
    np.testing.assert_allclose(scores, trees.decision_function(frame()), rtol=1e-5, atol=1e-5)


def test_xgboost_json_has_each_node_once_and_the_thresholds_of_the_edges():
    trees = fit(table("number"), **SMALL)
    made = trees.to_xgboost()["learner"]["gradient_booster"]["model"]["trees"]
    assert len(made) == 1 + SMALL["max_iter"] and made[0]["base_weights"] == [
        pytest.approx(frame().number.mean(), abs=1e-6)
    ]
    for tree in made[1:]:
        children = [*tree["left_children"], *tree["right_children"]]
        assert sorted(each for each in children if each >= 0) == list(range(1, len(tree["parents"])))
        parents = [*range(len(tree["parents"]))] * 2
        assert all(
            tree["parents"][child] == parent for child, parent in zip(children, parents, strict=True) if child >= 0
        )


def test_settings_that_do_not_fit_are_refused():
    for options, why in [
        ({"loss": "log_loss"}, "takes classes as target"),
        ({"weights": "c"}, "weights are a column with bounds"),
        ({"monotonic_cst": {"c": 1}}, "name columns of numbers"),
        ({"max_bins": 256}, "max_bins"),
        ({"max_iters": 3}, "max_iter"),
    ]:
        with pytest.raises(SettingError, match=why):
            model_of("number", **options)
    with pytest.raises(SettingError, match="bounds from 0 on"):
        model_of("number", loss="poisson")
    with pytest.raises(UsageError, match="declare different columns"):
        fit([table("two"), table("number")])


def test_a_node_refuses_a_state_that_no_honest_server_sends():
    model, rows = model_of("two"), table("two").train
    assert isinstance(model, Condensing) and isinstance(model, Finishing) and isinstance(model, Summed)
    state = grown_by(model, [rows])
    changed = {
        "bad-feature": {"feature": np.where(state["child"] >= 0, 4, -1).astype(np.int32)},
        "bad-child": {"child": np.where(state["child"] >= 0, 0, -1).astype(np.int32)},
        "wrong-shape": {"start": np.zeros(2)},
        "wrong-dtype": {"value": state["value"].astype(np.float32)},
        "wrong-count": {"reports": np.append(state["reports"], 2)},
    }
    for why, arrays in changed.items():
        with pytest.raises(Refused, match=f"^{why}"):
            model.check_state({**state, **arrays})
    with pytest.raises(Refused, match=r"^bad-child"):
        model.check_state({**state, "asked": np.array([len(state["feature"])])})
    with pytest.raises(Refused, match=r"^wrong-names"):
        model.check_state({name: array for name, array in state.items() if name != "limits"})


def test_a_node_that_leaves_ends_the_fit():
    model = model_of("two")
    state = {**model.initial_state(seed=1), "reports": np.array([3, 2])}
    ended = model.finished(state)
    assert ended.is_failure and "round 2 has sums of 2 clients, round 1 of 3" in ended.why
