"""Whole runs with secure noise, of data that come by three doors: one record more is told no better than is claimed."""

import csv
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedlearn
from tests.adversary.test_doors import LABELS, declared, pictures

pytestmark = pytest.mark.long

PAIRS = 40
CLAIMED = 0.27  # mu of epsilon 1 at delta 1e-5
SURE = 3.3 * (2 / PAIRS) ** 0.5  # what the estimate of mu may be above it by chance, once in 2,000
PRIVATE = {
    "clients": 1, "model": "linear", "private": "records", "delta": 1e-5, "rounds": 3, "lr": 0.1, "batch_size": 200,
    "engine": "inline", "progress": False, "settings": {"privacy.noise": "secure", "privacy.records": 200},
}  # fmt: skip
WIDTH = 48  # features, so that the gradients of two records are nearly orthogonal, and each that moves is seen
ROWS = np.random.default_rng(1).normal(size=(len(LABELS), WIDTH)).astype(np.float32)
MORE = (np.full(WIDTH, 4.0, np.float32), "yes")


def rows_of(is_more: bool) -> tuple[np.ndarray, list[str]]:
    return (np.vstack([ROWS, MORE[0]]), [*LABELS, MORE[1]]) if is_more else (ROWS, LABELS)


def table(at: Path, is_more: bool) -> str:
    names = [f"x{place}" for place in range(WIDTH)]
    with (at / "t.csv").open("w", newline="") as file:
        rows = ([*map(repr, row.tolist()), label] for row, label in zip(*rows_of(is_more), strict=True))
        csv.writer(file).writerows([[*names, "y"], *rows])
    bounds = [f"{name} = [-5, 5]" for name in names]
    return declared(at / "t.csv", 'target = "y"', 'classes = ["no", "yes"]', "[bounds]", *bounds)


def arrays(at: Path, is_more: bool) -> str:
    X, labels = rows_of(is_more)
    np.savez(at / "t.npz", X=X, y=np.array([label == "yes" for label in labels], np.int64))
    return declared(at / "t.npz", "classes = 2")


def folder(at: Path, is_more: bool) -> str:
    more = ([0.0, 0.0, 0.0], "yes") if is_more else None
    return declared(pictures(at / "t", more), 'classes = ["no", "yes"]', "size = [4, 4]")


def model_of(data: str, out: Path, epsilon: float) -> np.ndarray:
    """Return all that is released of a run, in one vector."""
    run = fedlearn.run(data=data, out=str(out), seed=1, epsilon=epsilon, **PRIVATE)
    return np.concatenate([array.ravel() for _, array in sorted(load_file(run.folder / "model.safetensors").items())])


def models_of(data: str, out: Path, *, count: int, epsilon: float) -> np.ndarray:
    return np.array([model_of(data, out / f"{epsilon:g}-{number}", epsilon) for number in range(count)])


@pytest.mark.parametrize("door", [table, arrays, folder])
def test_runs_with_a_record_more_are_told_apart_no_better_than_is_claimed(door, tmp_path):
    sides = [tmp_path / "without", tmp_path / "with"]
    for _is_more, side in enumerate(sides):
        side.mkdir()
    data = [door(side, bool(is_more)) for is_more, side in enumerate(sides)]
    quiet = [models_of(each, side, count=5, epsilon=300.0) for each, side in zip(data, sides, strict=True)]
    direction = quiet[1].mean(0) - quiet[0].mean(0)  # what tells most, as one who knows all other records finds it
    scores = [
        models_of(each, side, count=PAIRS, epsilon=1.0) @ direction for each, side in zip(data, sides, strict=True)
    ]
    spread = np.sqrt((np.var(scores[0], ddof=1) + np.var(scores[1], ddof=1)) / 2)
    mu = (scores[1].mean() - scores[0].mean()) / spread
    print(f"{door.__name__}: mu {mu:.2f}, claimed {CLAIMED}")
    assert mu <= CLAIMED + SURE
