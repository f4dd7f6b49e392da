"""Choose the best of 40 settings where there is nothing to learn: what is reported of it must be chance.

    python -m experiments.sweeps.noise_labels --seeds 20

Labels are drawn by coin, so every model has an accuracy of 1/2 on new rows. The best of 40 settings by the test rows
is above it; the best by validation rows, on the test rows that are measured once, is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from fedlearn.report.choosing import Choice, choice_of
from fedlearn.sweeps.results import PlannedPoint, points_of
from fedlearn.sweeps.sweep_plan import Plan
from fedlearn.sweeps.sweep_runs import run_sweep

ROWS, COLUMNS = 400, 20  # of training and of test rows each
RATES, EPOCHS = 10, 4  # 40 settings
SHARE, CHANCE, ERRORS = 0.5, 0.5, 3.3
BASE = {
    "model.name": "mlp", "clients": 4, "rounds.total": 2, "training.batch_size": 20,
    "data.validation_share": SHARE,
}  # fmt: skip


class Found(NamedTuple):
    """Accuracies of the best of 40 settings: on test rows that validation rows and test rows have chosen by."""

    reported: float
    before: float


def found_for(seed: int, folder: Path) -> Found:
    """Run the sweep on the noise of a seed."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(2 * ROWS, COLUMNS)).astype(np.float32), rng.integers(0, 2, 2 * ROWS)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "noise.npz"
    np.savez(data, X=X[:ROWS], y=y[:ROWS], X_test=X[ROWS:], y_test=y[ROWS:])
    rates = {f"{rate:.4f}": {"training.lr": float(rate)} for rate in np.geomspace(0.001, 0.3, RATES)}
    epochs = {str(count): {"training.local_epochs": count} for count in range(1, EPOCHS + 1)}
    plan = Plan("noise", (seed,), {**BASE, "data.dataset": str(data)}, {"rate": rates, "epochs": epochs})
    points = points_of(run_sweep(plan, folder / "sweep"))
    choice = choice_of(points)
    assert choice is not None and choice.among == RATES * EPOCHS
    reported = points[choice.place].over_seeds(choice.reported.name).mean
    return Found(reported, max(_of_all_rows(point, choice) for point in points))


def _of_all_rows(point: PlannedPoint, choice: Choice) -> float:
    """Return the accuracy on all test rows, by which a sweep chose before there were validation rows."""
    validation, rest = (point.over_seeds(metric.name).mean for metric in (choice.judge, choice.reported))
    return SHARE * validation + (1 - SHARE) * rest


def is_chance(accuracy: float, rows: float) -> bool:
    """Return whether an accuracy on so many rows is within 3.3 standard errors of chance."""
    error = float((CHANCE * (1 - CHANCE) / rows) ** 0.5)
    return abs(accuracy - CHANCE) <= ERRORS * error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweeps, and print how often what is reported is chance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="keep the sweeps in this folder")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as place:
        found = [found_for(seed, (options.out or Path(place)) / str(seed)) for seed in range(1, options.seeds + 1)]
    for name, rows in (("reported", ROWS * (1 - SHARE)), ("before", ROWS)):
        values = [getattr(each, name) for each in found]
        within = sum(is_chance(value, rows) for value in values)
        mean, error = float(np.mean(values)), (CHANCE * (1 - CHANCE) / rows / len(values)) ** 0.5
        print(
            f"{name}: {within} of {len(values)} within 3.3 standard errors of chance; mean {mean:.4f}, "
            f"{(mean - CHANCE) / error:+.1f} standard errors of the mean from chance"
        )


if __name__ == "__main__":
    main()
