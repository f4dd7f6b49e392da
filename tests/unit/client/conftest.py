"""Nodes that are not ready answer at once here, not at a whole second."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_wait(monkeypatch) -> None:
    monkeypatch.setattr("client.owner.error_disclosure.WHOLE", 1e-6)
