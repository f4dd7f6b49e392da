"""Whole runs with secure noise, of data that come by three doors: one record more is told no better than is claimed."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedlearn
from tests.adversary.test_doors import ROWS, declared, npz, pictures, table

pytestmark = pytest.mark.long

PAIRS = 40
CLAIMED = 0.27  # mu of epsilon 1 at delta 1e-5
SURE = 3.3 * (2 / PAIRS) ** 0.5  # what the estimate of mu may be above it by chance, once in 2,000
NOISY = {"privacy.noise": "secure", "privacy.records": 50}
PRIVATE = {
    "clients": 4, "model": "linear", "private": "records", "epsilon": 1.0, "delta": 1e-5, "rounds": 1, "lr": 0.1,
    "batch_size": 10, "engine": "inline", "progress": False, "settings": NOISY,
}  # fmt: skip
MORE = ([4.0, 4.0, 4.0], "yes")
BOUNDS = ("[bounds]", "a = [-5, 5]", "b = [-5, 5]", "c = [-5, 5]")
DOORS = {
    "table": lambda at, more: declared(table(at / "t.csv", more), 'target = "y"', 'classes = ["no", "yes"]', *BOUNDS),
    "arrays": lambda at, more: declared(npz(at / "t.npz", more), "classes = 2"),
    "pictures": lambda at, more: declared(pictures(at / "t", more), 'classes = ["no", "yes"]', "size = [4, 4]"),
}


def model_of(data: str, out: Path, seed: int) -> np.ndarray:
    """Return all that is released of a run, in one vector."""
    run = fedlearn.run(data=data, out=str(out), seed=seed, **PRIVATE)
    return np.concatenate([array.ravel() for _, array in sorted(load_file(run.folder / "model.safetensors").items())])


@pytest.mark.parametrize("door", DOORS)
def test_runs_with_a_record_more_are_told_apart_no_better_than_is_claimed(door, tmp_path):
    places = []
    for name, more in (("without", None), ("with", MORE)):
        (tmp_path / name).mkdir()
        places.append(DOORS[door](tmp_path / name, more))
    models = [
        np.array([model_of(place, tmp_path / f"run-{side}-{seed}", seed) for seed in range(PAIRS)])
        for side, place in enumerate(places)
    ]
    halves = [(side[: PAIRS // 2], side[PAIRS // 2 :]) for side in models]
    scores = [[], []]
    for learned, judged in ((0, 1), (1, 0)):  # the direction that tells most, learned on the other half
        direction = halves[1][learned].mean(0) - halves[0][learned].mean(0)
        for side in (0, 1):
            scores[side] += (halves[side][judged] @ direction / np.linalg.norm(direction)).tolist()
    spread = np.sqrt((np.var(scores[0], ddof=1) + np.var(scores[1], ddof=1)) / 2)
    mu = (np.mean(scores[1]) - np.mean(scores[0])) / spread
    print(f"{door}: mu {mu:.2f}, claimed {CLAIMED}")
    assert len(ROWS) == 200 and mu <= CLAIMED + SURE
