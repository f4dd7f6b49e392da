"""Real SuperNodes with ledgers: what an observer counts is what they hold, whatever is submitted."""

from __future__ import annotations

import signal

import pytest

from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile, names_in
from tests.compose.federation import Federation, why_not

pytestmark = [
    pytest.mark.long,  # in short: tests/unit/client/test_ledger.py, tests/unit/engine/deployment/test_task_memory.py
    pytest.mark.network,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

START = 300.0  # seconds for a federation to be up on a loaded machine
PATIENCE = 600.0  # seconds for a run on a loaded machine
FOREST = {
    "clients": 3, "rounds.total": 1, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.quorum": 1.0,
    "rounds.selection_window": 240.0, "rounds.max_attempts": 1, "data.dataset": "diabetes", "model.name": "dp-forest",
    "strategy.name": "forest_union",
}  # fmt: skip
HOSTILE = {
    "not-ready": {"privacy.epsilon": 1e6},
    "noise-not-secure": {"privacy.noise": "seeded"},
    "sizes-not-public": {"privacy.public_sizes": True},
    "model-not-allowed": {"model.name": "linear", "data.dataset": "digits", "strategy.name": "fedavg"},
}


@pytest.fixture
def federation(tmp_path):
    owners = {"FEDLEARN_LEDGER": str(tmp_path / "ledger"), "FEDLEARN_DATA_NAME": "patients"}
    most = {"FEDLEARN_LARGEST_EPSILON": "2", "FEDLEARN_EPSILON_OF_A_RUN": "1"}
    one = Federation(tmp_path, variables=owners | most)
    try:
        one.up()
        one.stack.until(lambda: one.stack["serverapp"].is_ready("service_healthy"), "the server", START)
        yield one
    finally:
        one.stack.down()


def test_a_run_submitted_again_or_by_a_hostile_server_costs_nothing_more(federation, tmp_path):
    folder = tmp_path / "ledger"

    def ended(code, **changes):
        run = federation.submit({**FOREST, **{name.replace("__", "."): value for name, value in changes.items()}})
        assert federation.stack.wait(run.job.name, PATIENCE) == code, federation.stack.story(40)
        return run

    def booked():
        return [Ledger(LedgerFile(folder, name)).spent().epsilon for name in names_in(folder)]

    first = ended(0)
    assert (first.summary["epsilon"], first.summary["nodes_spent"], first.summary["noise"]) == (1.0, 3, "secure")
    assert booked() == [1.0]  # of three shares of one table: a record lies in one of them
    federation.client_of(1).send(signal.SIGKILL)  # and is started again, with a ledger and no context
    again = ended(0)
    assert again.summary["model_sha256"] == first.summary["model_sha256"]
    for word, settings in HOSTILE.items():
        run = ended(1, **settings)
        assert {event["reason"] for event in run.events if event["event"] == "not-ready"} == {word}
    reported = [event for run in (first, again) for event in run.events if event["event"] == "reported"]
    seen = {(event["partition"], event["bytes"]): event["epsilon"] for event in reported}
    assert len(reported) == 6
    assert (len(seen), set(seen.values()), booked()) == (3, {1.0}, [1.0])
    other = ended(0, seed=2)
    assert other.summary["model_sha256"] != first.summary["model_sha256"]
    assert booked() == [2.0]
    run = ended(1, seed=3)
    assert {event["reason"] for event in run.events if event["event"] == "not-ready"} == {"not-ready"}
