"""What Flower reads of our settings is what the schema declares."""

from __future__ import annotations

import tomllib

from fedlearn.config import RunConfig, config_from, to_flower
from tests.flower_settings import CLIENTS, PYPROJECT, with_settings


def test_table_in_pyproject_is_what_the_script_writes():
    written = PYPROJECT.read_text(encoding="utf-8")
    assert with_settings(written) == written, "run python -m tests.flower_settings"


def test_settings_that_flower_reads_are_all_defaults_but_the_number_of_nodes():
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    flat = {}
    for name, value in declared.items():
        flat |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    config = config_from(flat)
    assert config == RunConfig(clients=CLIENTS)
    assert {name: type(value) for name, value in flat.items()} == {n: type(v) for n, v in to_flower(config).items()}
