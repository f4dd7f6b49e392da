from __future__ import annotations

import tomllib
from pathlib import Path

from fedlearn.config import RunConfig, to_flower

ROOT = Path(__file__).resolve().parents[2]


def test_defaults_in_pyproject_are_those_of_the_schema():
    # Flower refuses run-config keys that pyproject does not declare, so the table must be whole.
    app = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
    declared = {}
    for name, value in app["config"].items():
        declared |= {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
    defaults = to_flower(RunConfig())
    assert declared.pop("clients") == 2  # what `flwr run .` has as it comes; with 100 it would wait in vain
    assert defaults.pop("clients") == 100
    assert declared == defaults
    assert {name: type(value) for name, value in declared.items()} == {n: type(v) for n, v in defaults.items()}
