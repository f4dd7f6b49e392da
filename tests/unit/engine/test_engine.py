"""How many workers a run is given."""

from __future__ import annotations

import pytest

from fedlearn.config import config_from
from fedlearn.engine.embedded import engine


@pytest.mark.parametrize(
    ("cores", "workers", "clients", "cohort", "expected"),
    [
        (2, 300, 4, 4, 2),
        (2, 300, 100, 40, 20),
        (2, 300, 9, 40, 5),
        (2, 3, 100, 40, 3),
        (8, 6, 2, 2, 6),
        (8, 0, 2, 2, 8),
    ],
)
def test_a_run_gets_no_more_workers_than_have_something_to_do(monkeypatch, cores, workers, clients, cohort, expected):
    monkeypatch.setattr(engine, "default_size", lambda: cores)
    config = config_from({"engine.workers": workers, "clients": clients, "rounds.cohort": cohort})
    assert engine.workers_for(config) == expected
