"""One liar among the nodes of a model of sums: its effect within the limits of the gate.

    FEDLEARN_DATA=... python -m experiments.private_trees.sums_liar --seeds 3

Whole runs on Adult, 25 nodes of about 1,560 records, epsilon 1, local noise; accuracy on the fixed fifth that is held
out. In each round the node of partition 0 sends its negated sums, multiplied up to the gate's limit
(`SumsModel.reach`), without noise. The limit follows from ``gate.max_examples``. Noise is seeded: the runs measure, and
give no privacy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from client.learners.learner import LocalFit, LocalTask
from client.learners.sums_learner import SumsLearner
from fedlearn.config import RunConfig
from fedlearn.core.state import State
from fedlearn.engine import ENGINES
from fedlearn.models.presets import settings_from
from fedlearn.models.sums import SumsModel
from fedlearn.plugins.options import options_for
from fedlearn.report.tables import Table
from fedlearn.runs.folder import RunFolder

LIAR = 0  # its partition
NODES = 25
MODELS = ("dp-naive-bayes", "dp-boosting")
LIES: dict[str, tuple[str, int]] = {
    "none": ("none", 2_000),
    "the liar is refused": ("beyond", 2_000),
    "max_examples = 2000": ("most", 2_000),
    "max_examples = 20000": ("most", 20_000),
    "max_examples as it is": ("most", 10_000_000),
}
"""Title -> lie, ``gate.max_examples``."""


class Liar(SumsLearner):
    """Counts as `SumsLearner` does, and lies on one node.

    Parameters
    ----------
    model, config
        As in `SumsLearner`.
    lie
        The lie of the node of partition 0: none, up to the gate's limit, or twice the limit.
    """

    def __init__(self, model: SumsModel, config: RunConfig, *, lie: Literal["none", "most", "beyond"] = "none") -> None:
        super().__init__(model, config)
        self.times = {"none": 0.0, "most": 1.0, "beyond": 2.0}[lie]
        self.max_examples = config.gate.max_examples

    @classmethod
    def from_settings(cls, model: SumsModel, config: RunConfig) -> Liar:
        """Return the learner of a run."""
        reserved = ("model", "config")
        return cls(
            model, config, **options_for(cls, config.training.options, setting="training.options", reserved=reserved)
        )

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the node's sums, or a lie."""
        fit = super().fit(state, task)
        if task.partition_id != LIAR or not self.times:
            return fit
        counted = self.model.asked(state, task.train.at(task.indices)).astype(np.float64)
        one, norm = self.model.reach(task.round_number, max_examples=self.max_examples)
        most = min(one / np.abs(counted).max(), norm / np.abs(counted).sum())
        return replace(fit, arrays={**fit.arrays, "sums": np.trunc(-self.times * most * counted).astype(np.int64)})


def accuracy_of(model: str, lie: str, max_examples: int, seed: int) -> float:
    """Return the accuracy of one run."""
    with TemporaryDirectory() as folder:
        config = settings_from({
            "model.name": model, "data.dataset": "adult", "clients": NODES, "privacy.noise": "seeded", "seed": seed,
            "training.learner": "experiments.private_trees.sums_liar:Liar",
            "training.options": f'{{"lie": "{lie}"}}', "gate.max_examples": max_examples,
            "evaluation.every": 1000, "engine.name": "inline", "out": folder,
        })  # fmt: skip
        ENGINES.load(config.engine.name)(config)
        return float(RunFolder(Path(folder)).read_summary()["accuracy"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all settings and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    lines = []
    for title, (lie, max_examples) in LIES.items():
        line = [title]
        for model in MODELS:
            found = 100 * np.array([accuracy_of(model, lie, max_examples, seed + 1) for seed in range(options.seeds)])
            line.append(f"{found.mean():.1f} ({found.min():.1f} to {found.max():.1f})")
        lines.append(line)
    title = f"accuracy in %, Adult, {NODES} nodes, one of them a liar; {options.seeds} seeds"
    Table.of_texts("sums_liar", title, ["lie", *MODELS], lines, words=1).show()


if __name__ == "__main__":
    main()
