"""One model of sums over many nodes, beside the same model in one place: local and distributed noise, secure sums.

    FEDLEARN_DATA=... python -m experiments.private_trees.sums_federated --out runs/sums.csv [--task california]

*adult*: whole runs of ``python -m fedlearn.simulate`` with the settings of `Cell.settings` and the defaults otherwise,
on the inline engine in this process; accuracy on the fixed fifth of the rows that is held out. It is compared, on the
same rows, with the same model on one node that has all records, and with the estimator of `fedlearn.private_trees`,
whose boosting chooses its partitions.

*california*: the paper's ten contiguous folds, scaled error as in `regression`; nodes are random even parts of the
training rows. Direct calls take the place of messages (`federated`): nodes count and add noise by the learner, and
their reports are added up.

A seed changes shards and noise. Noise is seeded: the runs measure, and give no privacy. Stored rows are not run again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from client.learners.learner import LocalTask
from client.learners.sums_learner import SumsLearner
from experiments.private_trees.regression import BOUNDS, TARGET, TARGET_BOUNDS
from experiments.private_trees.stored_rows import StoredRows
from fedlearn.core.seeding import rng_for
from fedlearn.data import load_dataset
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.engine import ENGINES
from fedlearn.models import load_model
from fedlearn.models.presets import settings_from
from fedlearn.models.sums import SumsModel
from fedlearn.private_trees import DPBoostingClassifier, DPBoostingRegressor, DPNaiveBayes
from fedlearn.report.tables import Table
from fedlearn.runs.folder import RunFolder

CLIENTS = (25, 100)
CHOOSES = "chooses, in one place"
MASKED = "distributed, under secure sums"
FOLDS = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement, by the settings that distinguish it."""

    task: str
    model: str
    trust: str  # local, distributed, MASKED; or CHOOSES, the estimator of `fedlearn.private_trees` in one place
    clients: int
    epsilon: float
    seed: int
    fold: int = 0

    def settings(self, out: str = "") -> dict[str, Any]:
        """Return the settings of the run, by their dotted names."""
        return {
            "model.name": self.model,
            "data.dataset": self.task,
            "clients": self.clients,
            "privacy.epsilon": self.epsilon,
            "privacy.trust": "distributed" if self.trust == MASKED else self.trust,
            "secure.sums": "masked" if self.trust == MASKED else "off",
            "privacy.noise": "seeded",
            "seed": self.seed,
            "evaluation.every": 1000,  # after the last round only
            "engine.name": "inline",
            "out": out,
        }


COLUMNS = (*(field.name for field in fields(Cell)), "score", "rounds", "seconds")


def cells(task: str, seeds: int) -> Iterator[Cell]:
    """Yield all measurements of a task, seed after seed, so that an early stop leaves whole tables."""
    for seed in range(1, seeds + 1):
        if task == "adult":
            for model in ("dp-boosting", "dp-naive-bayes"):
                for epsilon in (1.0, 1 / 5, 1 / 10):  # with the noise of one, 25 and 100 nodes
                    yield Cell(task, model, CHOOSES, 1, epsilon, seed)
                    yield Cell(task, model, "local", 1, epsilon, seed)
                for clients in CLIENTS:
                    for trust in ("distributed", MASKED, "local"):
                        yield Cell(task, model, trust, clients, 1.0, seed)
            continue
        for epsilon in (1.0, 8.0):
            for trust, clients in ((CHOOSES, 1), ("local", 1), ("distributed", 100), ("local", 100)):
                for fold in range(FOLDS):
                    yield Cell(task, "dp-boosting", trust, clients, epsilon, seed, fold)


def measured(cell: Cell) -> dict[str, Any]:
    """Return the row of a cell."""
    began = time.perf_counter()
    score, rounds = of_adult(cell) if cell.task == "adult" else of_california(cell)
    return {**asdict(cell), "score": score, "rounds": rounds, "seconds": time.perf_counter() - began}


def of_adult(cell: Cell) -> tuple[float, int]:
    """Return accuracy on the held-out rows, and the number of rounds."""
    if cell.trust == CHOOSES:
        data = load_dataset("adult", "")
        kind = {"dp-boosting": DPBoostingClassifier, "dp-naive-bayes": DPNaiveBayes}[cell.model]
        assert data.schema is not None
        declared = declared_of(data.schema) | {"classes": list(range(len(data.schema.classes)))}
        model = kind(epsilon=cell.epsilon, **declared, noise="seeded", random_state=cell.seed)
        guess = model.fit(data.train.inputs, data.train.targets).predict(data.test.inputs)
        return float((guess == data.test.targets).mean()), 0
    with TemporaryDirectory() as folder:
        config = settings_from(cell.settings(folder))
        ENGINES.load(config.engine.name)(config)
        summary = RunFolder(Path(folder)).read_summary()
    return summary["accuracy"], summary["rounds"]


def of_california(cell: Cell) -> tuple[float, int]:
    """Return the error on one fold, and the number of rounds."""
    frame = parquet.read_table(Path(os.environ["FEDLEARN_DATA"]) / "california_housing.parquet").to_pandas()
    X, y = frame[list(BOUNDS)].to_numpy(np.float64), frame[TARGET].to_numpy(np.float64)
    held = np.array_split(np.arange(len(y)), FOLDS)[cell.fold]
    rest = np.setdiff1d(np.arange(len(y)), held)
    train, test = Examples(X[rest], y[rest]), Examples(X[held], y[held])
    schema = TableSchema(TARGET, BOUNDS, target_bounds=TARGET_BOUNDS)
    width = TARGET_BOUNDS[1] - TARGET_BOUNDS[0]
    if cell.trust == CHOOSES:
        declared = declared_of(schema) | {"target_bounds": TARGET_BOUNDS}
        model = DPBoostingRegressor(
            epsilon=cell.epsilon, **declared, noise="seeded", random_state=10 * cell.seed + cell.fold
        )
        return float(np.abs(model.fit(train.inputs, train.targets).predict(X[held]) - y[held]).mean() / width), 0
    data = Dataset.of_table("california", train, test, schema, "made")
    return federated(data, cell)


def declared_of(schema: TableSchema) -> dict[str, Any]:
    """Return the declaration of a schema, as parameters of an estimator."""
    numeric = len(schema.bounds)
    categories = {numeric + i: len(words) for i, words in enumerate(schema.categories.values())}
    return {"bounds": dict(enumerate(schema.bounds.values())), "categories": categories}


def federated(data: Dataset, cell: Cell) -> tuple[float, int]:
    """Return the scaled error of one model of the sums of all nodes, and the number of rounds."""
    config = settings_from(cell.settings())
    model = load_model(cell.model, data.spec)
    assert isinstance(model, SumsModel)
    learner = SumsLearner.from_settings(model, config)
    seed = 1000 * cell.seed + cell.fold
    order = rng_for(seed, purpose="shards").permutation(len(data.train))
    state = learner.model.initial_state(seed=seed)
    for number in range(1, config.rounds.total + 1):
        reports = [
            learner.fit(state, LocalTask(data.train, rows, seed, number, node, {})).arrays
            for node, rows in enumerate(np.array_split(order, cell.clients))
        ]
        sums: dict[str, NDArray[Any]] = {name: np.sum([each[name] for each in reports], axis=0) for name in state}
        state = {name: np.concatenate([state[name], sums[name]]) for name in state}
    return learner.model.evaluate(state, data.test).means["mae_scaled"], config.rounds.total


def table_of(rows: Sequence[dict[str, str]], task: str) -> Table:
    """Return one line for each setup: mean over seeds (and folds), in brackets the deviation of the seeds' means."""
    found: dict[tuple[str, str, str, str], dict[str, list[float]]] = {}
    rounds: dict[tuple[str, str, str, str], str] = {}
    for row in rows:
        if row["task"] == task:
            setup = row["model"], row["trust"], row["clients"], row["epsilon"]
            found.setdefault(setup, {}).setdefault(row["seed"], []).append(float(row["score"]))
            rounds[setup] = row["rounds"] if row["trust"] != CHOOSES else "-"
    lines = []
    for (model, trust, clients, epsilon), by_seed in found.items():
        means = np.array([np.mean(scores) for scores in by_seed.values()])
        unit, digits = (100, 1) if task == "adult" else (1, 4)
        text = f"{unit * means.mean():.{digits}f} ({unit * means.std():.{digits}f})"
        whose = "in one place" if clients == "1" and trust != CHOOSES else trust
        lines.append([model, whose, clients, epsilon, rounds[model, trust, clients, epsilon], str(len(means)), text])
    words = "accuracy in %" if task == "adult" else "MAE scaled, ten contiguous folds"
    heads = ["model", "noise", "nodes", "epsilon", "rounds", "seeds", words]
    return Table.of_texts(f"sums_federated_{task}", f"{task}: {words}", heads, lines, words=2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/sums_federated.csv"), help="keeps every measurement")
    parser.add_argument("--task", choices=("adult", "california"), default="adult")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", help="folder of the data; default: FEDLEARN_DATA")
    options = parser.parse_args(arguments)
    if options.data_dir:
        os.environ["FEDLEARN_DATA"] = options.data_dir
    stored = StoredRows(options.out, COLUMNS)
    done = {tuple(row[field.name] for field in fields(Cell)) for row in stored.rows}
    for cell in cells(options.task, options.seeds):
        if tuple(str(value) for value in asdict(cell).values()) not in done:
            stored.add(measured(cell))
    table_of(stored.rows, options.task).show()


if __name__ == "__main__":
    main()
