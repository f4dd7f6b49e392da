"""Which pairs of files the exact auditor lets nodes answer of: one line more in a table, from the file to the reply.

What stands before the mechanisms is looked at here: the loader, which rows are trained on, who has which of them, the
whole client app with its ledger. Cells and labels may be what was never declared. All that the nodes send is published.
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
from fedlearn.config import config_from, to_flower
from fedlearn.config.policy import Policy
from fedlearn.data.base import TableSchema
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import FIRST_NODE_ID, context_of, handled
from fedlearn.privacy.audit.replay import Draw, Pair
from fedlearn.private_trees.federated.replays import CATEGORIES, Drawn, booked_of
from fedlearn.words.cohort import Instruction
from fedlearn.words.errors import RunFailed
from fedlearn.words.metric import EPSILON
from fedlearn.words.state import State

ODD = np.inf  # stands for a cell that is no number, and no declared word
SECONDS = 60.0  # until an instruction is over


def of_file(name: str, *, clients: int) -> Draw:
    """Return what draws pairs of files of a table that differ by a line.

    Parameters
    ----------
    clients
        Nodes of a simulation among whom the file is divided; 1: a real node, whose own data it is.
    """

    def draw(rng: np.random.Generator) -> Pair:
        drawn = Drawn.of(name, rng, rounds=1, **{"privacy.public_sizes": False, "clients": clients})
        drawn = replace(drawn, odd=(ODD,))
        plain = drawn.node()
        state, booked = plain.model.initial_state(seed=1), booked_of(plain, plain.model.initial_state(seed=1))
        settings = drawn.settings | {"model.name": name, "privacy.noise": "secure", "seed": int(rng.integers(100))}
        settings |= {"data.dataset": "table.toml"}

        def publish(X: NDArray[np.float64], y: NDArray[np.float64]) -> list[Any]:
            with _folder() as folder:
                _write(folder, drawn.schema, X, y)
                # What a process has loaded it knows by the settings: these are of another run.
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
    """Have a folder for data that is the user's as long as the block lasts, and one for what is kept of them.

    What nodes write to their own logs, as of odd cells, is not shown.
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
    """Write a table, and what is declared about it."""
    target = 'classes = ["no", "yes"]' if schema.classes else "target_bounds = [-1, 1]"
    declared = f'data = "table.csv"\ntarget = "y"\n{target}\n[bounds]\na = [0, 1]\n[categories]\nb = ["red", "green"]\n'
    (folder / "data" / "table.toml").write_text(declared, encoding="utf-8")
    with (folder / "data" / "table.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["a", "b", "y"])
        for (a, b), number in zip(X.tolist(), y.tolist(), strict=True):
            lines.writerow([_cell(a), _cell(b, CATEGORIES["b"]), _cell(number, schema.classes)])


def _cell(value: float, words: Sequence[str] = ()) -> float | str:
    """Return what stands in a file for a value, or for the code of one of these words."""
    if value == ODD:
        return "unheard of"
    return "" if np.isnan(value) else words[int(value)] if words else value


def _contexts(settings: dict[str, Any], clients: int, folder: Path) -> Iterator[Context]:
    if clients > 1:
        for partition in range(clients):
            yield context_of(FIRST_NODE_ID + partition, b"", num_nodes=clients, settings=settings)
        return
    ours: Mapping[str, Any] = {"partition-id": 0, "num-partitions": 1, "own-data": True, "data-name": "table"}
    ours = {**ours, "ledger": str(folder / "ledger"), **Policy(largest_epsilon=100.0).as_node_config()}
    yield Context(flower.RUN_ID, FIRST_NODE_ID, dict(ours), RecordDict(), settings)


def _answer(state: State, context: Context) -> dict[str, Any]:
    """Return what a node's client app answers to an instruction.

    Raises
    ------
    RunFailed
        With the word that it sends instead.
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
    f"{name}, from a file to {nodes}": of_file(name, clients=clients)
    for name in ("dp-random-forest", "dp-boosting", "dp-naive-bayes")
    for nodes, clients in (("its node", 1), ("three nodes", 3))
}
"""Of both learners, of trees and of sums, models of which one record shows most at once."""
FEWER = 4  # times fewer pairs are enough: mechanisms are replayed elsewhere, and a file takes longer
