"""Each entry of every table loads, and looking names up imports no heavy package."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fedlearn.models import MODELS
from fedlearn.plugins import tables as plugins
from fedlearn.plugins.registry import Registry, load_reference
from tests.marked import some_long

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlearn", "server", "client", "strategies", "experiments")


def tables() -> Iterator[str]:
    """Yield ``module:NAME`` of every `Registry` that a module of ours assigns to a name."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Registry(" not in text:
            continue  # to parse them all takes seconds
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for statement in ast.parse(text).body:
            match statement:
                case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=ast.Name("Registry"))):
                    yield f"{module}:{name}"
                case ast.AnnAssign(target=ast.Name(name), value=ast.Call(func=ast.Name("Registry"))):
                    yield f"{module}:{name}"


TABLES: dict[str, Registry] = {table: load_reference(table) for table in tables()}


def test_the_tables_are_found():
    assert {table.setting for table in TABLES.values()} == plugins.TABLES.keys() - {"model.name"}
    assert all(dict(table) == plugins.TABLES[table.setting] for table in TABLES.values())
    assert all(TABLES.values())


@pytest.mark.parametrize(("table", "name"), [(t, name) for t, table in TABLES.items() for name in table])
def test_every_entry_loads(table, name):
    assert callable(TABLES[table].load(name))


@pytest.mark.parametrize("reader", sorted({*plugins.DATA_READERS.values()}))
def test_every_reader_of_data_loads(reader):
    assert callable(load_reference(reader))


@pytest.mark.parametrize("row", MODELS.values(), ids=MODELS)
def test_every_row_of_a_model_leads_to_code(row):
    build = row.build if isinstance(row.build, str) else row.build.args[0]
    assert callable(load_reference(build))


@cache
def imported_by(modules):
    program = f"import sys, {modules}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (
            "fedlearn.config, fedlearn.data, fedlearn.compression",
            {"torch", "flwr", "ray", "datasets", "flwr_datasets", "sklearn"},
        ),
        (
            "server.app, client.app, strategies, fedlearn.engine.embedded.worker",
            {"torch", "datasets", "sklearn", "ray", "numba", "opendp", "fedlearn.private_trees", "sqlalchemy"},
        ),
        (
            "fedlearn.models.torch.torch_model, client.learners.sgd",
            {"numba", "opendp", "fedlearn.private_trees", "sklearn"},
        ),
        (
            "fedlearn.private_trees.federated.learners.tree_learner, fedlearn.private_trees.federated.models.forest, "
            "fedlearn.private_trees.federated.models.relay_model, "
            "fedlearn.private_trees.federated.trees_preload",
            {"torch", "datasets", "flwr_datasets", "opendp"},
        ),
    ],
    ids=["settings", "apps", "networks", "trees"],
)
def test_import_is_cheap(modules, unwanted):
    assert not imported_by(modules) & unwanted


def test_reading_the_rows_of_models_imports_nothing_that_trains():
    found = imported_by("fedlearn.models\nlist(fedlearn.models.MODELS.values())")
    assert "fedlearn.private_trees.federated.tree_rows" in found
    assert not found & {"torch", "numba", "sklearn", "scipy", "fedlearn.private_trees.estimators"}


NOT_IN_STEPS = [name for name, row in MODELS.items() if not row.trains_in_steps]


@pytest.mark.parametrize("name", some_long(NOT_IN_STEPS, "dp-forest", "exact-boosting"))
def test_what_a_row_has_imported_before_workers_are_forked_is_what_its_model_needs(name):
    row = MODELS[name]
    of_trees = {"numba", "sklearn"} if "private_trees" in row.build else set()
    assert imported_by(", ".join(row.imports)) >= {*of_trees, row.build.partition(":")[0]}


def test_a_file_of_algorithms_sets_something_at_the_nodes_and_one_of_strategies_does_not():
    for name, reference in plugins.STRATEGIES.items():
        sets_nodes = name in plugins.ALGORITHMS or bool(getattr(load_reference(reference), "learner", ""))
        package, _, file = reference.partition(":")[0].rpartition(".")
        assert package != "fedlearn.algorithms" or sets_nodes, f"{name}: strategies/{file}.py is its place"
        assert not package.startswith("strategies") or not sets_nodes, f"{name}: algorithms/{file}.py is its place"


def test_no_learner_of_ours_has_a_learning_rate_that_the_settings_do_not_say():
    sgd = TABLES["client.learners:LEARNERS"].load("sgd")
    for name, reference in plugins.LEARNERS.items():
        kind = load_reference(reference)
        assert not issubclass(kind, sgd) or kind.learning_rate is sgd.learning_rate, name
