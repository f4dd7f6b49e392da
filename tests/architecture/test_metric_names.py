"""A metric's name stands in `fedlearn/core/metric.py` alone: all others ask it."""

from __future__ import annotations

import ast
from pathlib import Path

from fedlearn.core.metrics import KNOWN

ROOT = Path(__file__).parents[2]
READERS = [
    path.relative_to(ROOT)
    for folder in ("client", "server", "strategies", "fedlearn", "experiments/sweeps")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
ALLOWED = {
    "fedlearn/core/metric.py": set(KNOWN.columns),
    "fedlearn/private_trees/federated/models/forest.py": {"epsilon"},  # a parameter of estimators
    "fedlearn/plugins/tables.py": {"mae", "mse"},
    "fedlearn/commands/brief.py": {"epsilon"},  # a flag
    "client/learners/lightning.py": {"loss"},  # an entry of what a training_step of Lightning returns
    **{f"experiments/sweeps/{name}.py": {"accuracy"} for name in (  # figures that are about accuracy
        "compression_ratio", "figures", "secure_sums", "frontier", "granularity", "number_of_clients", "skew", "tables",
    )},
}  # fmt: skip


def test_no_other_file_knows_the_name_of_a_metric():
    named = {}
    for path in (path for path in READERS if path.parts[1:2] not in (("auditing",), ("private_trees",), ("privacy",))):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        named[str(path)] = texts & set(KNOWN.columns) - ALLOWED.get(str(path), set())
    assert len(named) > 500
    assert {path: names for path, names in named.items() if names} == {}
