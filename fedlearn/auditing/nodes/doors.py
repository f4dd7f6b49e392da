"""The audit of doors: from the file on, a record more moves no other record, and changes nothing that is public.

Behind its loader DP-SGD is audited by `fedlearn.auditing.records.neighbors`. Here a door brings the same records twice,
and one more the second time: an ordinary one, one of another class, one with a cell that is no number. Each common
record must be for testing or on the same node as before, with the same values. A real node trains on all records that
its owner has declared, whatever file, options, share or seed a server names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from flwr.app import Context, RecordDict
from PIL import Image

from client.examples import examples_of, training_set
from client.request import Request
from fedlearn import flower
from fedlearn.auditing.run_auditor import RunLoss
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.config.policy import Policy
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.partitioning import partition_table
from fedlearn.models.loaded import dataset_of

RECORDS, SIDE, NODES = 60, 3, 3
CLASSES = ("no", "yes")
SETTINGS = {
    "model.name": "linear", "training.learner": "dp-sgd", "privacy.protects": "records", "privacy.epsilon": 1.0,
    "privacy.delta": 1e-5, "privacy.records": 20, "privacy.noise": "secure", "clients": NODES,
}  # fmt: skip
NAMED: tuple[Mapping[str, object], ...] = (
    {}, {"data.dataset": "other.toml"}, {"data.options": {"target": "a"}}, {"seed": 7},
    {"data.node_test_share": 0.3}, {"data.partition": "dirichlet"},
)  # fmt: skip
"""What a server may name to a real node."""


class Rows(NamedTuple):
    """Records as a file holds them: (records, 3) cells, and the name of each one's class."""

    cells: list[list[object]]
    labels: list[str]


class Held(NamedTuple):
    """What becomes of records: those for testing and those of each node, and what everybody may know."""

    parts: list[set[bytes]]
    public: str


Door = Callable[[Path, Rows], Held]


def through(door: Door) -> RunLoss:
    """Return whether the door keeps its promise for each record more; infinite loss where it does not."""
    common = _rows()
    found = [_opened(door, Rows([*common.cells, *cells], [*common.labels, *labels])) for cells, labels in _more()]
    before = found[0]
    for (cells, _), after in zip(_more(), found, strict=True):
        if isinstance(before, str) or isinstance(after, str):
            return RunLoss(math.inf, f"a record of {cells} more, and nobody trains: {after}")
        if before.public != after.public:
            return RunLoss(math.inf, f"a record of {cells} more, and what is public differs")
        if moved := sum(len(one - other) for one, other in zip(before.parts, after.parts, strict=True)):
            return RunLoss(math.inf, f"a record of {cells} more moves or changes {moved} others")
    return RunLoss(1.0)


def _rows() -> Rows:
    numbers = np.random.default_rng(0).normal(size=(RECORDS, SIDE)).astype(np.float32)
    return Rows(numbers.tolist(), [CLASSES[row % 2] for row in range(RECORDS)])


def _more() -> Iterator[tuple[list[list[object]], list[str]]]:
    yield [], []
    yield [[0.5, 0.25, 0.125]], ["yes"]
    yield [[0.5, 0.25, 0.125]], ["never"]
    yield [["x", 0.25, 0.125]], ["no"]


def _opened(door: Door, rows: Rows) -> Held | str:
    with TemporaryDirectory() as place:
        data = Path(place, "data")
        data.mkdir()
        with patch.dict(os.environ, FEDLEARN_DATA=str(data), FEDLEARN_CACHE=f"{place}/cache"):
            try:
                return door(data, rows)
            except Exception as error:
                return f"{type(error).__name__}: {error}"


def _config(folder: Path, name: str, more: Mapping[str, object] | None = None) -> RunConfig:
    named = {"data.dataset": str(folder / name), "out": str(folder / "run")}
    return config_from({**SETTINGS, **named, **(more or {})})


def _shares(config: RunConfig, dataset: Dataset, *, by_record: bool = True) -> Held:
    table = partition_table(dataset, config.data, num_partitions=NODES, seed=config.seed, by_record=by_record)
    parts = [dataset.test, *(dataset.train.at(table.indices(node)) for node in range(NODES))]
    return Held([_records(part) for part in parts], _public(dataset))


def _records(part: Examples) -> set[bytes]:
    return {each.tobytes() + target.tobytes() for each, target in zip(part.inputs, part.targets, strict=True)}


def _public(dataset: Dataset) -> str:
    spec = dataset.spec
    return repr((spec.shape, spec.dtype, spec.classes, spec.class_names, spec.feature_names))


def _csv(folder: Path, rows: Rows) -> Path:
    lines = ["a,b,c,y", *(",".join(map(str, [*row, label])) for row, label in zip(*rows, strict=True))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    bounds = "[bounds]\na = [-5, 5]\nb = [-5, 5]\nc = [-5, 5]\n"
    declared = f'data = "t.csv"\ntarget = "y"\nclasses = ["no", "yes"]\n{bounds}'
    (folder / "t.toml").write_text(declared, encoding="utf-8")
    return folder / "t.toml"


def _npz(folder: Path, rows: Rows) -> None:
    X = np.array([[np.nan if isinstance(cell, str) else cell for cell in row] for row in rows.cells], np.float32)
    np.savez(folder / "t.npz", X=X, y=np.array([(*CLASSES, "never").index(label) for label in rows.labels]))


def _pictures(folder: Path, rows: Rows) -> None:
    for number, (row, label) in enumerate(zip(*rows, strict=True)):
        place = folder / "t" / label
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (SIDE, SIDE, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
        if "x" in row:
            (place / f"{number}.png").write_bytes(b"no picture")


def _declared_csv(folder: Path, rows: Rows) -> Held:
    config = _config(folder, _csv(folder, rows).name)
    return _shares(config, dataset_of(config))


def _declared_npz(folder: Path, rows: Rows) -> Held:
    _npz(folder, rows)
    (folder / "t.toml").write_text('data = "t.npz"\nclasses = 2\n', encoding="utf-8")
    config = _config(folder, "t.toml")
    return _shares(config, dataset_of(config))


def _declared_pictures(folder: Path, rows: Rows) -> Held:
    _pictures(folder, rows)
    config = _config(folder, "t", {"data.options": {"classes": [*CLASSES], "size": [SIDE, SIDE]}})
    return _shares(config, dataset_of(config))


def _own(folder: Path, rows: Rows, declared: str = "t.toml") -> Held:
    """Return what a real node trains on, one part for each thing that a server may name."""
    file = _csv(folder, rows)
    other = file.read_text(encoding="utf-8").replace("c = [-5, 5]", "c = [-9, 9]")
    (folder / "other.toml").write_text(other, encoding="utf-8")
    policy = Policy(largest_epsilon=9.0, delta=1e-4, declared=declared, models=("linear",)).as_node_config()
    owner = {"own-data": True, "ledger": str(folder / "ledger"), "partition-id": 0, "num-partitions": 1, **policy}
    parts, public = [], ""
    for number, named in enumerate(NAMED):
        asked = _config(folder, file.name, {**named, "out": str(folder / f"run-{number}")})
        message = flower.received(RecordDict(), node_id=1, message_type="train", message_id=f"{number}", ttl=60.0)
        request = Request.of(message, Context(1, 1, owner, RecordDict(), to_flower(asked)))
        parts.append(_records(training_set(request).at(examples_of(request))))
        public = _public(dataset_of(request.config))
    if any(part != parts[0] for part in parts):
        raise ValueError("a node trains on what a server names")
    return Held(parts, public)


def _unprotected(config: RunConfig) -> RunConfig:
    privacy = config.privacy.model_copy(update={"protects": "nothing"})
    return config.model_copy(update={"privacy": privacy})


def _by_a_permutation(folder: Path, rows: Rows) -> Held:
    _npz(folder, rows)
    config = _config(folder, "t.npz", {"data.options": {"classes": 3}})
    return _shares(config, dataset_of(_unprotected(config)))


def _nodes_by_a_permutation(folder: Path, rows: Rows) -> Held:
    _npz(folder, rows)
    config = _config(folder, "t.npz", {"data.options": {"classes": 2}})
    return _shares(config, dataset_of(config), by_record=False)


def _classes_as_found(folder: Path, rows: Rows) -> Held:
    _npz(folder, rows)
    config = _config(folder, "t.npz", {"privacy.noise": "seeded"})
    return _shares(config, dataset_of(config))


def _scaled_by_the_mean(folder: Path, rows: Rows) -> Held:
    config = _config(folder, _csv(folder, rows).name)
    found = dataset_of(config)
    train = replace(found.train, inputs=found.train.inputs - found.train.inputs.mean(0))
    return _shares(config, replace(found, train=train))


def _ended_by_a_cell(folder: Path, rows: Rows) -> Held:
    np.array(rows.cells, np.float32)
    return _declared_csv(folder, rows)


SOUND: Mapping[str, Door] = {
    "a declared CSV file": _declared_csv,
    "a declared npz file": _declared_npz,
    "a folder of pictures": _declared_pictures,
    "a real node's own file": _own,
}
PLANTED: Mapping[str, Door] = {
    "test rows by a permutation": _by_a_permutation,
    "nodes by a permutation": _nodes_by_a_permutation,
    "classes as they are found": _classes_as_found,
    "numbers less their mean": _scaled_by_the_mean,
    "a cell that ends the run": _ended_by_a_cell,
    "own data that a server names": lambda folder, rows: _own(folder, rows, declared=""),
}


def doors() -> Iterator[tuple[str, bool, RunLoss]]:
    """Yield what the audit says of doors, as they are and with a mistake: name, whether they are sound, loss."""
    for name, door in {**SOUND, **PLANTED}.items():
        yield name, name in SOUND, through(door)
