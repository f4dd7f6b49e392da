"""The settings that the plan of a sweep varies, read from the file that the sweep keeps beside its runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedlearn.runs.safe_reading import read_small

PLAN = "sweep.toml"


def varied_by(run: Path) -> tuple[str, ...]:
    """Return the settings that the sweep of a run folder varies, in the order of its axes; none for a single run."""
    path = run.parent.parent / PLAN
    with suppress(OSError):
        return _varied_in(path, path.stat().st_mtime_ns)
    return ()


@lru_cache(maxsize=64)
def _varied_in(path: Path, _changed: int) -> tuple[str, ...]:
    with suppress(OSError, ValueError, RecursionError, AttributeError):
        tree = tomllib.loads(read_small(path).decode())
        of_choices = (each for labels in tree.get("choices", {}).values() for each in labels.values())
        return tuple(dict.fromkeys([*_names(tree.get("grid", {})), *(n for each in of_choices for n in _names(each))]))
    return ()


def _names(tree: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{within}{name}.")
        else:
            yield f"{within}{name}"
