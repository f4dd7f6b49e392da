"""Fit diffprivlib's random forest on request, in an environment of its own.

diffprivlib 0.6.6 does not import under the scikit-learn of this project (it reads private names of 1.5), so it needs
an environment of its own:

    python -m venv ~/diffprivlib
    ~/diffprivlib/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2
    python -m experiments.private_trees.adult --diffprivlib-python ~/diffprivlib/bin/python

The program reads one JSON object a line: {"data": path of an .npz with X, y, test_X, test_y, sizes; "epsilon",
"n_estimators", "seed"}; it answers with one: {"accuracy", "seconds" (of the fit)}.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib import import_module

import numpy as np


def answer(request: dict) -> dict:  # type: ignore[type-arg]
    """Fit once and return the answer; bounds and classes are declared, as for our estimators."""
    data = np.load(request["data"])
    forest = import_module("diffprivlib.models").RandomForestClassifier(
        n_estimators=request["n_estimators"],
        epsilon=request["epsilon"],
        bounds=(np.zeros(len(data["sizes"])), data["sizes"] - 1.0),
        classes=np.array([0, 1]),
        random_state=request["seed"],
    )
    began = time.perf_counter()
    forest.fit(data["X"], data["y"])
    seconds = time.perf_counter() - began
    return {"accuracy": float((forest.predict(data["test_X"]) == data["test_y"]).mean()), "seconds": seconds}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
