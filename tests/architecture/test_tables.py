from __future__ import annotations

import subprocess
import sys

import pytest

from client.learners import LEARNERS
from fedlearn.compression import CODECS
from fedlearn.data import DATASETS
from fedlearn.engine import ENGINES
from fedlearn.models import MODELS
from strategies import STRATEGIES

TABLES = {"CODECS": CODECS, "DATASETS": DATASETS, "ENGINES": ENGINES, "LEARNERS": LEARNERS, "MODELS": MODELS}
TABLES |= {"STRATEGIES": STRATEGIES}


@pytest.mark.parametrize(("table", "name"), [(t, name) for t, table in TABLES.items() for name in table])
def test_every_entry_loads(table, name):
    assert callable(TABLES[table].load(name))


def imported_by(statement):
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import fedlearn.config", {"torch", "flwr", "ray", "datasets"}),
        ("import fedlearn.data", {"torch", "flwr", "datasets", "flwr_datasets", "sklearn"}),
        ("import fedlearn.compression", {"torch", "flwr"}),
        ("import server.app", {"torch", "datasets", "sklearn", "ray"}),
        ("import client.app", {"torch", "datasets", "sklearn", "ray"}),
        ("import strategies", {"torch"}),
        ("import server.app, client.app, fedlearn.engine.embedded.worker", {"numba", "opendp", "fedlearn.trees"}),
        ("import fedlearn.models.torch_model, client.learners.sgd", {"numba", "opendp", "fedlearn.trees", "sklearn"}),
        ("import fedlearn.engine.embedded.preload_trees", {"torch", "datasets", "flwr_datasets", "opendp"}),
    ],
)
def test_import_is_cheap(statement, unwanted):
    assert not imported_by(statement) & unwanted
