"""Measure models of sums under local noise over few records, beside a constant prediction.

    python -m experiments.private_trees.few_records [--nodes 25] [--seeds 5] [--epsilons 0.1 1] [--models dp-boosting]

Tables that were not used to find the rules: scikit-learn's breast cancer (569 records), its digits (1,797), and a made
one (20,000; six numbers, four categories, three classes or a skewed number). A seed changes which fifth is held out,
shards and noise; shards are even. The constant is the largest class, or the median, of the training rows, without
noise. Direct calls take the place of messages. Noise is seeded: the runs measure, and give no privacy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from client.learners import LEARNERS
from client.learners.learner import LocalTask
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import State
from fedlearn.data import load_dataset
from fedlearn.data.data_spec import Examples, TableSchema, joined
from fedlearn.data.dataset import Dataset
from fedlearn.models import load_model, model_spec
from fedlearn.models.model import Planned
from fedlearn.models.presets import settings_from
from fedlearn.private_trees.node_table import NodeTable, union
from fedlearn.report.tables import Table

MADE = 20_000  # records of the made table
TASKS = {
    "breast cancer": ("dp-boosting", "dp-naive-bayes", "dp-random-forest"),
    "digits": ("dp-boosting", "dp-naive-bayes", "dp-random-forest"),
    "made, classes": ("dp-boosting", "dp-naive-bayes", "dp-random-forest"),
    "made, a number": ("dp-boosting",),
    "made, a number of 2,000": ("dp-boosting",),
}
HELD_OUT = 0.2


def table_of(task: str) -> tuple[Examples, TableSchema]:
    """Return all records of a task, or of a data set of that name, and their declaration."""
    if task in ("adult", "california"):
        data = load_dataset(task, "")
        assert data.schema is not None
        return joined([data.train, data.test]), data.schema
    if task.startswith("made"):
        return made(task)
    from sklearn import datasets

    if task == "digits":
        data = datasets.load_digits()
        bounds = {f"pixel {at}": (0.0, 16.0) for at in range(data.data.shape[1])}
        return Examples(data.data, data.target), TableSchema("digit", bounds, classes=tuple(map(str, range(10))))
    data = datasets.load_breast_cancer()
    tops = [30, 40, 200, 3000, 0.2, 0.4, 0.5, 0.3, 0.4, 0.1, 3, 5, 25, 600, 0.05, 0.2, 0.5, 0.06, 0.1, 0.03, 40, 50,
            300, 5000, 0.3, 1.2, 1.5, 0.3, 0.7, 0.3]  # fmt: skip
    bounds = {str(name): (0.0, float(top)) for name, top in zip(data.feature_names, tops, strict=True)}
    return Examples(data.data, data.target), TableSchema("malignant", bounds, classes=("no", "yes"))


def made(task: str) -> tuple[Examples, TableSchema]:
    """Return the made table: few of its columns matter, some are heavy-tailed, some have missing values."""
    rng = np.random.default_rng(7)
    rows = 2000 if task.endswith("2,000") else MADE
    numbers = np.column_stack(
        [
            rng.normal(50, 15, rows),
            np.exp(rng.normal(3, 1, rows)),
            rng.uniform(0, 360, rows),
            rng.gamma(2, 100, rows),
            rng.normal(0, 1, rows),
            rng.beta(2, 5, rows),
        ]
    )
    sizes = (2, 4, 7, 3)
    codes = np.column_stack([rng.choice(size, size=rows, p=_falling(size)) for size in sizes])
    signal = (
        0.05 * (numbers[:, 0] - 50) + 0.5 * (codes[:, 0] - 0.3) + np.sin(numbers[:, 2] / 57) * 0.6
        - 0.002 * numbers[:, 3] + 0.3 * (codes[:, 2] == 1) * (numbers[:, 5] > 0.3)
    )  # fmt: skip
    numbers[rng.random((rows, 6)) < 0.03] = np.nan
    bounds = {"a": (0.0, 100.0), "b": (0.1, 1000.0), "c": (0.0, 360.0), "d": (0.0, 2000.0), "e": (-4.0, 4.0),
              "f": (0.0, 1.0)}  # fmt: skip
    categories = {f"word {at}": tuple(f"{at}-{code}" for code in range(size)) for at, size in enumerate(sizes)}
    X = np.column_stack([numbers, codes]).astype(float)
    if task == "made, classes":
        scores = np.column_stack([signal + 0.9, -signal + 0.3, np.full(rows, -1.0)]) + rng.gumbel(size=(rows, 3))
        return Examples(X, scores.argmax(axis=1)), TableSchema("y", bounds, categories, classes=("one", "two", "three"))
    y = np.exp(0.7 * signal + rng.normal(0, 0.7, rows) + 2)
    return Examples(X, y), TableSchema("y", bounds, categories, target_bounds=(0.0, 150.0))


def _falling(size: int) -> NDArray[np.float64]:
    weight = 1 / np.arange(1, size + 1)
    return np.asarray(weight / weight.sum())


def measured(task: str, model: str, epsilon: float, *, nodes: int, seed: int, declared: int | None) -> dict[str, float]:
    """Return the scores of a model and of the constant on the held-out records of a task; see `scored`."""
    return scored(table_of(task), model, epsilon, nodes=nodes, seed=seed, declared=declared)


def scored(
    table: tuple[Examples, TableSchema], model: str, epsilon: float, *, nodes: int, seed: int, declared: int | None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, float]:  # fmt: skip
    """Return the scores of a model and of the constant on the held-out records of a table.

    Parameters
    ----------
    declared
        Largest number of records of a node (``gate.max_examples``); None: the preset.
    options
        Options of the model.
    """
    examples, schema = table
    order = rng_for(seed, purpose="held out").permutation(len(examples))
    held = round(HELD_OUT * len(examples))
    train, test = examples.at(order[held:]), examples.at(order[:held])
    given: dict[str, Any] = {"model.name": model, "clients": nodes, "privacy.epsilon": epsilon, "seed": seed}
    given |= {"privacy.noise": "seeded"} | ({} if declared is None else {"gate.max_examples": declared})
    given |= {"model.options": json.dumps(options)} if options else {}
    config = settings_from(given)
    found = load_model(model, Dataset.of_table("a table", train, test, schema, "made").spec, config.model.options)
    found = found.planned(config) if isinstance(found, Planned) else found
    learner: Any = LEARNERS.load(found.learner).from_settings(found, config)
    model_of_run: Any = learner.model
    shards = np.array_split(np.arange(len(train)), nodes)
    takes_turns = model_spec(model).rounds == "turns"
    state: State = model_of_run.initial_state(seed=seed)
    for number in range(1, config.rounds.total + 1):
        asked = [number - 1] if takes_turns else range(nodes)
        reports = [learner.fit(state, LocalTask(train, shards[node], seed, number, node, {})).arrays for node in asked]
        before = [state] if takes_turns and number > 1 else []
        state = _after(state, [*before, *reports], is_sum=model_spec(model).sums)
    means = model_of_run.evaluate(state, test).means
    if schema.classes:
        constant = float((test.targets == np.bincount(train.targets).argmax()).mean())
        return {"score": means["accuracy"], "constant": constant, "rounds": config.rounds.total}
    assert schema.target_bounds is not None
    low, high = schema.target_bounds
    constant = float(np.abs(np.clip(test.targets, low, high) - np.median(train.targets)).mean() / (high - low))
    return {"score": means["mae_scaled"], "constant": constant, "rounds": config.rounds.total}


def _after(state: State, reports: list[State], *, is_sum: bool) -> State:
    """Return the state after a round: all sums so far, or all trees."""
    if is_sum:
        return {name: np.concatenate([state[name], np.sum([each[name] for each in reports], axis=0)]) for name in state}
    return union([NodeTable.from_arrays(each) for each in reports]).to_arrays()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.25, 1.0, 4.0])
    parser.add_argument("--models", nargs="+", default=["dp-boosting", "dp-naive-bayes", "dp-random-forest"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--declared", type=int, help="gate.max_examples: records of the largest node")
    options = parser.parse_args(arguments)
    lines = []
    for task in options.tasks:
        for model in (each for each in TASKS[task] if each in options.models):
            for epsilon in options.epsilons:
                runs = [
                    measured(task, model, epsilon, nodes=options.nodes, seed=seed, declared=options.declared)
                    for seed in range(1, options.seeds + 1)
                ]
                score, constant = (np.array([run[name] for run in runs]) for name in ("score", "constant"))
                digits = 4 if "number" in task else 3
                lines.append(
                    [task, model, f"{epsilon:g}", f"{runs[0]['rounds']:g}", f"{score.mean():.{digits}f}",
                     f"{score.std():.{digits}f}", f"{constant.mean():.{digits}f}"]
                )  # fmt: skip
                print(*lines[-1], flush=True)
    heads = ["table", "model", "epsilon", "rounds", "accuracy, or scaled error", "deviation", "the constant"]
    Table.of_texts("few_records", f"{options.nodes} nodes, local noise", heads, lines, words=2).show()


if __name__ == "__main__":
    main()
