"""Nodes that take no part cost hardly any memory or time."""

from __future__ import annotations

import time


def test_ten_thousand_nodes_start_their_first_round_soon(execute):
    begin = time.time()
    run = execute(
        {
            "data.dataset": "many_digits:load", "clients": 10_000, "rounds.cohort": 100, "rounds.total": 1,
            "evaluation.where": "none",
        }
    )  # fmt: skip
    (configured,) = run.events_of("configured")
    assert configured["cohort"] == 100
    assert configured["time"] - begin < 30  # a few seconds on an idle machine
