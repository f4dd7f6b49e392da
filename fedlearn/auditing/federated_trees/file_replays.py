"""Pairs of files for the exact auditor: tables that differ by one line, replayed from file to reply.

These replays cover what runs before the mechanisms: the loader, the split into training and test rows, the partition
among nodes, and the whole client app with its ledger. Cells and labels may be undeclared. Everything that the nodes
send counts as published.
"""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.auditing.federated_trees.replays import CATEGORIES, Drawn, booked_of
from fedlearn.auditing.pairs import Draw, Pair
from fedlearn.config import config_from, to_flower
from fedlearn.config.policy import Policy
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import State
from fedlearn.data.data_spec import TableSchema
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import FIRST_NODE_ID, context_of, handled

ODD = np.inf  # stands for a cell that is neither a number nor a declared word
SECONDS = 60.0  # time to live of an instruction


def answers_of(name: str, *, clients: int) -> Draw:
    """Return a function that draws pairs of tables, which differ by one line of their files.

    Parameters
    ----------
    name
        Model that the nodes train.
    clients
        Number of simulated nodes among which the file is divided; 1: the file is the own data of a real node.
    """

    def draw(rng: np.random.Generator) -> Pair:
        drawn = Drawn.draw(name, rng, rounds=1, **{"privacy.public_sizes": False, "clients": clients})
        drawn = replace(drawn, odd=(ODD,))
        plain = drawn.node()
        state, booked = plain.model.initial_state(seed=1), booked_of(plain, plain.model.initial_state(seed=1))
        settings = drawn.settings | {"model.name": name, "privacy.noise": "secure", "seed": int(rng.integers(100))}
        settings |= {"data.dataset": "table.toml"}

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> list[Any]:
            with _folder() as folder:
                _write(folder, drawn.schema, X, y)
                # A process keeps what it has loaded by the run's settings: another folder makes it another run.
                flat = to_flower(config_from(settings | {"out": str(folder)}))
                return [_answer(state, each) for each in _contexts(flat, clients, folder)]

        return drawn.pair(
            plain,
            publish,
            lambda replies: max(each["metrics"][EPSILON.name] for each in replies),
            booked=lambda replies: booked,
        )

    return draw


@contextmanager
def _folder() -> Iterator[Path]:
    """Make folders for data and cache, which this process uses as long as the block lasts.

    The nodes' own logs, for example of odd cells, are not shown.
    """
    is_disabled = logging.root.manager.disable
    with TemporaryDirectory() as place:
        ours = {"FEDLEARN_DATA": f"{place}/data", "FEDLEARN_CACHE": f"{place}/cache"}
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            logging.disable(logging.CRITICAL)
            Path(place, "data").mkdir()
            yield Path(place)
        finally:
            logging.disable(is_disabled)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _write(folder: Path, schema: TableSchema, X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Write a table and its declarations."""
    target = 'classes = ["no", "yes"]' if schema.classes else "target_bounds = [-1, 1]"
    declared = f'data = "table.csv"\ntarget = "y"\n{target}\n[bounds]\na = [0, 1]\n[categories]\nb = ["red", "green"]\n'
    (folder / "data" / "table.toml").write_text(declared, encoding="utf-8")
    with (folder / "data" / "table.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["a", "b", "y"])
        for (a, b), number in zip(X.tolist(), y.tolist(), strict=True):
            lines.writerow([_cell(a), _cell(b, CATEGORIES["b"]), _cell(number, schema.classes)])


def _cell(value: float, words: Sequence[str] = ()) -> float | str:
    """Return the cell for a value, or for the code of one of these words."""
    if value == ODD:
        return "unheard of"
    return "" if np.isnan(value) else words[int(value)] if words else value


def _contexts(settings: dict[str, Any], clients: int, folder: Path) -> Iterator[Context]:
    if clients > 1:
        for partition in range(clients):
            yield context_of(FIRST_NODE_ID + partition, b"", num_nodes=clients, settings=settings)
        return
    ours: Mapping[str, Any] = {"partition-id": 0, "num-partitions": 1, "own-data": True, "data-name": "table"}
    ours = {
        **ours,
        "ledger": str(folder / "ledger"),
        **Policy(largest_epsilon=100.0, declared="table.toml").as_node_config(),
    }
    yield Context(flower.RUN_ID, FIRST_NODE_ID, dict(ours), RecordDict(), settings)


def _answer(state: State, context: Context) -> dict[str, Any]:
    """Return the reply of a node's client app to an instruction: its arrays and metrics.

    Raises
    ------
    RunFailed
        With the error that the app sends in place of a reply.
    """
    flower.enter_run()
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), context.node_id, "train")
    message = wire.with_instruction(message, Instruction(1, 1, 1), ttl=SECONDS)
    reply = handled(load_client_app(), flower.with_id(message), context)
    if reply.has_error():
        raise RunFailed(reply.error.reason or "no answer")
    metrics = {name: float(value) for name, value in reply.content.metric_records[wire.METRICS].items()}  # type: ignore[arg-type]
    return {"arrays": wire.unpack_arrays(reply.content.array_records[wire.ARRAYS]), "metrics": metrics}


FILES: dict[str, Draw] = {
    f"{name}, from a file to {nodes}": answers_of(name, clients=clients)
    for name in ("dp-random-forest", "dp-boosting", "dp-naive-bayes")
    for nodes, clients in (("its node", 1), ("three nodes", 3))
}
"""Name of the row -> function that draws its pairs. The models are of both learners, trees and sums, and are those in
which a single record shows most."""
FEWER = 4  # these rows need only a quarter of the pairs: mechanisms are replayed elsewhere, and a file takes longer
