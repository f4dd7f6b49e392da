r"""Fits private classifiers of other libraries on request, in environments of their own, as each needs other versions.

    python -m venv ~/diffprivlib
    ~/diffprivlib/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2
    python -m venv ~/ebm
    ~/ebm/bin/pip install interpret-core==0.7.8 scikit-learn statsmodels
    python -m experiments.private_trees.all_columns --diffprivlib-python ~/diffprivlib/bin/python \
        --ebm-python ~/ebm/bin/python

Reads one JSON object a line: {"method", "data": path of an .npz with X (codes and numbers), y, test_X, test_y, sizes
(of each column its number of categories, 0 = numeric), low, high; "epsilon", "seed", and of DP-EBM "rounds" if not its
own}; answers with one: {"accuracy", "auc", "seconds" (of the fit)}. {"dump": path} writes Fair's 1978 survey there, as
statsmodels ships it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Fit once; bounds and classes are declared, as for our estimators."""
    if "dump" in request:
        frame = import_module("statsmodels.api").datasets.fair.load_pandas().data
        np.savez(request["dump"], names=frame.columns.to_numpy(str), values=frame.to_numpy(np.float64))
        return {}
    data = dict(np.load(request["data"]))
    seen, model = METHODS[request["method"]](data, float(request["epsilon"]), int(request["seed"]))
    if "rounds" in request:
        model.set_params(max_rounds=int(request["rounds"]))
    X, test_X = seen(data["X"]), seen(data["test_X"])
    began = time.perf_counter()
    model.fit(X, data["y"])
    seconds = time.perf_counter() - began
    share = model.predict_proba(test_X)[:, 1]
    right = float(((share > 0.5) == data["test_y"]).mean())
    return {"accuracy": right, "auc": float(roc_auc_score(data["test_y"], share)), "seconds": seconds}


def one_hot(data: dict[str, Any]) -> Any:
    """Return a function that maps rows to numbers in [0, 1] and indicators of categories."""
    sizes, low, high = data["sizes"], data["low"], data["high"]

    def seen(X: Any) -> Any:
        parts = []
        for column, size in enumerate(sizes):
            x = X[:, column]
            parts.append(
                (x[:, None] == np.arange(size)) if size else ((x - low[column]) / (high - low)[column])[:, None]
            )
        return np.concatenate(parts, axis=1).astype(np.float64).clip(0, 1)

    return seen


def as_numbers(data: dict[str, Any]) -> Any:
    """Return a function that maps rows, codes of categories included, to numbers in [0, 1]; missing values to 0."""
    low, high = data["low"], data["high"]
    return lambda X: np.nan_to_num((X - low) / (high - low)).clip(0, 1)


def logistic_regression(data: dict[str, Any], epsilon: float, seed: int, seen: Any = as_numbers) -> tuple[Any, Any]:
    """Return diffprivlib's logistic regression; the norm of a row is at most the root of the number of columns."""
    kind = import_module("diffprivlib.models").LogisticRegression
    norm = float(np.sqrt(len(data["sizes"])))
    return seen(data), kind(epsilon=epsilon, data_norm=norm, max_iter=500, random_state=seed)


def forest(data: dict[str, Any], epsilon: float, seed: int) -> tuple[Any, Any]:
    """Return diffprivlib's random forest, on indicators."""
    kind = import_module("diffprivlib.models").RandomForestClassifier
    columns = int(np.where(data["sizes"] > 0, data["sizes"], 1).sum())
    bounds = (np.zeros(columns), np.ones(columns))
    return one_hot(data), kind(epsilon=epsilon, bounds=bounds, classes=np.array([0, 1]), random_state=seed)


def naive_bayes(data: dict[str, Any], epsilon: float, seed: int) -> tuple[Any, Any]:
    """Return diffprivlib's Gaussian naive Bayes, on numbers: better than on indicators."""
    kind = import_module("diffprivlib.models").GaussianNB
    columns = len(data["sizes"])
    return as_numbers(data), kind(epsilon=epsilon, bounds=(np.zeros(columns), np.ones(columns)), random_state=seed)


def ebm(data: dict[str, Any], epsilon: float, seed: int, rate: float | None = None) -> tuple[Any, Any]:
    """Return DP-EBM (delta = 1e-6: not pure epsilon), with its own learning rate or another."""
    kind = import_module("interpret.glassbox._ebm._ebm").DPExplainableBoostingClassifier
    types = ["nominal" if size else "continuous" for size in data["sizes"]]
    bounds = {i: (float(data["low"][i]), float(data["high"][i])) for i, size in enumerate(data["sizes"]) if not size}
    more = {} if rate is None else {"learning_rate": rate}
    model = kind(
        feature_types=types, epsilon=epsilon, delta=1e-6, privacy_bounds=bounds, random_state=seed, n_jobs=1, **more
    )
    return (lambda X: np.where(np.isnan(X), 0, X)), model


METHODS: dict[str, Any] = {
    "diffprivlib forest": forest,
    "diffprivlib GaussianNB": naive_bayes,
    "diffprivlib logistic regression": logistic_regression,
    "the same, on indicators": lambda data, epsilon, seed: logistic_regression(data, epsilon, seed, one_hot),
    "DP-EBM, delta 1e-6": ebm,
    "DP-EBM, delta 1e-6, rate 0.1": lambda data, epsilon, seed: ebm(data, epsilon, seed, 0.1),
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
