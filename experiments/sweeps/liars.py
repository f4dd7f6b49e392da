"""Measure the harm of one liar in twenty under default settings: the accuracy, and the answers of the gate.

    FEDLEARN_DATA=... python -m experiments.sweeps.liars --out runs/liars

The node of partition 0 lies in every round, in one way a run: it claims ten million examples, scales its change by a
hundred or by minus ten, or puts the largest number of float32 or NaN into one entry of each parameter.
Each run is compared with the one of the same seed in which that node never reports (``absent``).

If the gate refuses the liar, the honest nodes of all these runs begin from the same bytes, and their fits have the same
bytes: a process remembers them. ``configs/liars.toml`` has the settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from client.learners.learner import LocalFit, LocalTask
from client.learners.sgd import SGD
from experiments.sweeps.command import Results, experiment
from fedlearn.config import RunConfig
from fedlearn.core.metric import ACCURACY
from fedlearn.core.state import Array, State
from fedlearn.data import cifar10
from fedlearn.data.dataset import Dataset
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically
from fedlearn.sweeps.results import PlannedPoint, points_of

LIAR = 0  # partition of the lying node
EXAMPLES = 10_000_000  # the most that gate.max_examples lets through
IMAGES = 6000  # of the training set: 300 for each of twenty nodes
REMEMBERED = 1000  # fits of `cnn`, 250 MB; a run has 600
ABSENT = "absent"

_fits: dict[tuple[object, ...], LocalFit] = {}

Lie = Literal["none", "absent", "examples", "times 100", "times -10", "entry", "nan"]


class Liar(SGD):
    """A learner that trains as `SGD` does, and lies on one node.

    Parameters
    ----------
    model, config
        As in `SGD`.
    lie
        The lie of the node of partition 0.
    """

    def __init__(self, model: TorchModel, config: RunConfig, *, lie: Lie = "none") -> None:
        super().__init__(model, config)
        self.partition = config.data.partition
        self.lie = lie

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the node, or a lie."""
        if task.partition_id != LIAR or self.lie == "none":
            return self._fit(state, task)
        if self.lie == ABSENT:
            raise ConnectionError("this node takes no part")
        fit = self._fit(state, task)
        if self.lie == "examples":
            return replace(fit, num_examples=EXAMPLES)
        return replace(fit, arrays={name: CHANGED[self.lie](array, state[name]) for name, array in fit.arrays.items()})

    def _fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the node; from memory, if it has begun from these bytes before."""
        begun_from = hashlib.sha256(b"".join(array.tobytes() for array in state.values())).digest()
        key = (begun_from, self.partition, task.seed, task.round_number, task.partition_id)
        if key not in _fits:
            fit = super().fit(state, task)
            _fits[key] = replace(fit, arrays={name: array.copy() for name, array in fit.arrays.items()})
            if len(_fits) > REMEMBERED:
                del _fits[next(iter(_fits))]
        return _fits[key]


def _times(factor: float) -> Callable[[Array, Array], Array]:
    return lambda array, before: before + array.dtype.type(factor) * (array - before)


def _with_entry(value: float) -> Callable[[Array, Array], Array]:
    def changed(array: Array, before: Array) -> Array:
        spoiled = array.copy()
        spoiled.flat[0] = value
        return spoiled

    return changed


CHANGED: Mapping[str, Callable[[Array, Array], Array]] = {
    "times 100": _times(100.0),
    "times -10": _times(-10.0),
    "entry": _with_entry(float(np.finfo(np.float32).max)),
    "nan": _with_entry(np.nan),
}


def first_images(data_dir: str) -> Dataset:
    """Return CIFAR-10 with the first `IMAGES` of its training images, whose order is random, and all test images."""
    whole = cifar10.load(data_dir)
    return replace(
        whole,
        name=f"{whole.name}, {IMAGES} images",
        train=whole.train.at(slice(0, IMAGES)),
        fingerprint=f"{whole.fingerprint}-first-{IMAGES}",
    )


def draw(results: Results, folder: Path) -> None:
    """Write the table: for each lie the mean accuracy in each cell, and the largest difference to ``absent``."""
    points = points_of(results)
    by_labels = {tuple(point.labels.values()): point for point in points}
    cells = list(dict.fromkeys(labels[:-1] for labels in by_labels))
    lies = list(dict.fromkeys(labels[-1] for labels in by_labels))
    rows = [
        [lie, *(_cell(by_labels.get((*cell, lie)), by_labels.get((*cell, ABSENT))) for cell in cells)] for lie in lies
    ]
    caption = "Accuracy after the last round, and the largest difference of a seed to its run without the liar"
    table = Table.of_texts("table", caption, ["lie", *(", ".join(cell) for cell in cells)], rows, words=1)
    table.show()
    write_atomically(folder / "table.md", table.as_markdown().encode())


def _cell(point: PlannedPoint | None, without: PlannedPoint | None) -> str:
    if point is None or without is None:
        return ""
    accuracy = {run.summary["seed"]: run.summary[ACCURACY.name] for run in without.runs}
    pairs = [(run.summary[ACCURACY.name], accuracy.get(run.summary["seed"])) for run in point.runs]
    differences = [mine - other for mine, other in pairs if other is not None]
    worst = f"{max(differences, key=abs):+.4f}" if differences else "-"
    return f"{point.over_seeds(ACCURACY.name).mean:.4f} ({worst})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and write its table."""
    experiment("liars", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
