"""fedlearn: federated learning in rounds of selection, configuration and reporting, on Flower.

`run` makes a run, `sweep` many, `load` opens one, `runs` lists them, `compare` tells two apart, `session` keeps the
workers from run to run; `partitions` shows which client has which examples, `by_hand` makes rounds step by step. What
is imported for them is imported when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fedlearn.plugins.extras import EXTRAS
from fedlearn.plugins.moved import MOVED_MODULES
from fedlearn.plugins.own_packages import BELOW_FEDLEARN, LAST

if TYPE_CHECKING:
    from fedlearn.api import Run, by_hand, compare, load, partitions, run, session, sweep

__version__ = "0.2.0"
__all__ = ["Run", "by_hand", "compare", "load", "partitions", "run", "runs", "session", "sweep"]

sys.meta_path[:0] = [MOVED_MODULES, BELOW_FEDLEARN]
sys.meta_path += [LAST, EXTRAS]


def __getattr__(name: str) -> Any:
    if name == "session":  # before what takes a second to import: its process imports meanwhile
        return import_module("fedlearn.engine.session").session
    if name in __all__:
        return getattr(import_module("fedlearn.api"), name)
    if not name.startswith("_") and find_spec(f"fedlearn.{name}") is not None:
        return import_module(f"fedlearn.{name}")
    raise AttributeError(f"module 'fedlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what users call, and the packages that they import from."""
    packages = ["attacks", "compression", "data", "devices", "models", "privacy", "private_trees", "secure"]
    return sorted([*__all__, *packages])
