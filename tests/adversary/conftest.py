"""Runs on scripted grids, for hostile nodes."""

from __future__ import annotations

from tests.unit.server.conftest import scene

__all__ = ["scene"]
