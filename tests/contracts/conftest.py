"""The grids of all engines and runs on scripted grids, for the contracts that they share."""

from __future__ import annotations

from tests.unit.engine.conftest import ask, embedded, grid, inline, plugins, pool_of, threads
from tests.unit.server.conftest import scene

__all__ = ["ask", "embedded", "grid", "inline", "plugins", "pool_of", "scene", "threads"]
