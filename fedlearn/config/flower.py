"""RunConfig <-> Flower's run config, a flat table of dotted names.

`pyproject.toml` holds the same table under ``[tool.flwr.app.config]``; ``python -m tests.flower_settings`` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.config.load import config_from
from fedlearn.config.schema import RunConfig

FlatValue = bool | int | float | str


def to_flower(config: RunConfig) -> dict[str, FlatValue]:
    """Return the settings as Flower's flat run config.

    >>> to_flower(RunConfig())["training.batch_size"]
    100
    """
    flat: dict[str, FlatValue] = {}
    for name, value in config.model_dump().items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


_last: tuple[Mapping[str, Any], RunConfig] | None = None


def from_flower(run_config: Mapping[str, Any]) -> RunConfig:
    """Return the settings in a Flower run config; the last settings are kept, as every message brings them again."""
    global _last
    if _last is None or _last[0] != run_config:
        _last = (dict(run_config), config_from(run_config))
    return _last[1]
