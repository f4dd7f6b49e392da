"""The grids of all engines, for the contract that they share."""

from __future__ import annotations

from tests.unit.engine.conftest import ask, embedded, grid, inline, plugins, pool_of, threads

__all__ = ["ask", "embedded", "grid", "inline", "plugins", "pool_of", "threads"]
