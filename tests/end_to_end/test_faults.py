"""Faults of a federation of real processes: a run ends with the bytes of an undisturbed one, or says why not.

One federation is up for the whole file. With a quorum of all nodes a disturbed round is abandoned and run again, so
that the final model must be the undisturbed one: anything lost or counted twice would change its bytes.
"""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.compose.federation import Federation, Submitted, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]
long = pytest.mark.long

START = 300.0  # seconds for a federation to be up on a loaded machine
PATIENCE = 600.0  # seconds for a run on a loaded machine
STRICT = {
    "clients": 3, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.quorum": 1.0,
    "rounds.selection_window": 120.0, "rounds.reporting_deadline": 40.0, "rounds.max_attempts": 8,
    "rounds.backoff": 0.5, "data.dataset": "digits", "model.name": "faulty:model", "training.local_epochs": 1,
    "compression.codec": "drop",
}  # fmt: skip


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    one = Federation(tmp_path_factory.mktemp("faults"))
    try:
        one.up()
        stack = one.stack
        stack.until(lambda: stack["serverapp"].is_ready("service_healthy"), "the server", START)
        yield one
    finally:
        one.stack.down()


@pytest.fixture
def expected(undisturbed):
    """The SHA-256 of the model of a run without faults."""
    return undisturbed(STRICT).sha


@pytest.fixture(autouse=True)
def no_faults_left(federation):
    yield
    federation.fault("")


def reached(federation: Federation) -> None:
    """Wait until a node hangs or is slow, as FAULTS says; the next time it will not."""
    federation.wait_for_hang(PATIENCE)
    federation.fault("")


def ended(federation: Federation, run: Submitted) -> dict:
    """Wait for the run's end, which must be a good one with every report counted once; return its summary."""
    code = federation.stack.wait(run.job.name, PATIENCE)
    assert code == 0, federation.stack.story(40)
    committed = [event for event in run.events if event["event"] == "committed"]
    assert [event["round"] for event in committed] == list(range(1, len(committed) + 1))
    for event in committed:
        place = {"round": event["round"], "attempt": event["attempt"]}
        reports = Counter(e["partition"] for e in run.events if e["event"] == "reported" and place.items() <= e.items())
        assert set(reports.values()) <= {1}
        assert len(reports) == event["reported"]
    return run.summary


def run_with(federation: Federation, faults: str, **settings: object) -> Submitted:
    federation.fault(faults)
    return federation.submit({**STRICT, **settings})


@long
def test_an_executor_killed_in_training(federation, expected):
    run = run_with(federation, "hang:1:2")
    reached(federation)
    for process in federation.client_of(1).processes("deployment.executor"):
        process.send_signal(signal.SIGKILL)
    assert ended(federation, run)["model_sha256"] == expected
    assert run.has("late", round=2, attempt=1, partition=1) or run.has("failed", round=2, attempt=1, partition=1)
    assert run.has("abandoned", round=2, attempt=1)


@long
def test_a_task_killed_in_training_is_answered_for_by_its_executor(federation, expected):
    run = run_with(federation, "kill:1:2")
    federation.stack.until(lambda: run.has("failed", round=2), "the failure", PATIENCE)
    federation.fault("")
    assert ended(federation, run)["model_sha256"] == expected
    (failed, *_) = [e for e in run.events if e["event"] == "failed"]
    assert "killed by SIGKILL" in failed["reason"]


@long
def test_a_client_that_hangs_beyond_the_deadline(federation, expected):
    run = run_with(federation, "hang:1:2", **{"rounds.reporting_deadline": 8.0})
    reached(federation)
    assert ended(federation, run)["model_sha256"] == expected
    assert run.has("late", round=2, attempt=1, partition=1, reason="no report by the reporting deadline")


@long
def test_a_late_report_is_refused_and_its_node_is_told(federation):
    settings = {"rounds.reporting_deadline": 30.0, "rounds.quorum": 0.6}  # Flower drops what comes after two deadlines
    run = run_with(federation, "slower:1:1", **settings)
    reached(federation)
    ended(federation, run)
    assert run.has("late", round=1, partition=1)
    assert run.has("late-report-refused", round=1, partition=1)


def test_client_code_that_raises_ends_the_run_with_its_reason(federation):
    federation.fault("raise:0:1 raise:1:1 raise:2:1")
    run = federation.submit({**STRICT, "rounds.max_attempts": 2, "rounds.total": 1})
    assert federation.stack.wait(run.job.name, PATIENCE) == 1
    assert "every client fails alike, and none has ever reported" in run.last_line
    assert "the disk is full" in run.last_line


def test_wrong_settings_are_refused_with_their_reason(federation):
    run = federation.submit({**STRICT, "strategy.name": "nobody"})
    assert federation.stack.wait(run.job.name, PATIENCE) == 1
    assert "strategy" in run.last_line
    assert "nobody" in run.last_line


@long
def test_a_supernode_killed_in_training_comes_back(federation, expected):
    run = run_with(federation, "hang:1:2")
    reached(federation)
    federation.client_of(1).processes("deployment.supernode")[0].send_signal(signal.SIGKILL)
    assert ended(federation, run)["model_sha256"] == expected
    nodes = {e["node"] for e in run.events if e["event"] == "reported" and e["partition"] == 1}
    assert len(nodes) == 1  # its key makes it the same node


@long
def test_a_client_killed_as_a_whole_comes_back(federation, expected):
    run = run_with(federation, "hang:1:2")
    reached(federation)
    federation.client_of(1).send(signal.SIGKILL)
    assert ended(federation, run)["model_sha256"] == expected


@long
def test_a_superlink_killed_in_training(federation, expected):
    run = run_with(federation, "slow:1:2")
    reached(federation)
    starts = federation.stack["superlink"].starts
    federation.stack["superlink"].send(signal.SIGKILL)
    assert ended(federation, run)["model_sha256"] == expected
    assert federation.stack["superlink"].starts == starts + 1


@long
def test_a_server_app_killed_in_training(federation, expected):
    run = run_with(federation, "slow:1:2")
    reached(federation)
    _, *forked = federation.stack["serverapp"].processes("deployment.executor")
    assert forked  # the server app: the executor forks it
    forked[-1].send_signal(signal.SIGKILL)
    assert ended(federation, run)["model_sha256"] == expected
    assert [e["committed"] for e in run.events if e["event"] == "started"] == [0, 1]


@long
def test_a_client_that_stands_still_beyond_the_deadline_goes_on(federation, expected):
    run = run_with(federation, "slow:1:2", **{"rounds.reporting_deadline": 20.0})
    reached(federation)
    client = federation.client_of(1)
    starts = client.starts  # tests before may have killed it
    client.send(signal.SIGSTOP)
    federation.stack.until(lambda: run.has("late", round=2, attempt=1, partition=1), "the deadline", PATIENCE)
    client.send(signal.SIGCONT)
    assert ended(federation, run)["model_sha256"] == expected
    assert client.starts == starts


@long
def test_a_server_app_killed_between_asynchronous_rounds(federation):
    options = {"buffer_size": 2, "in_flight": 3}
    settings = {"rounds.schedule": "buffered", "rounds.schedule_options": options, "compression.send": "update"}
    run = run_with(federation, "slow:1:2", **settings)
    reached(federation)
    _, *forked = federation.stack["serverapp"].processes("deployment.executor")
    forked[-1].send_signal(signal.SIGKILL)
    assert federation.stack.wait(run.job.name, PATIENCE) == 0, federation.stack.story(40)
    committed = [event for event in run.events if event["event"] == "committed"]
    numbers = [(event["round"], event["reported"]) for event in committed]
    assert numbers == [(number, 2) for number in range(1, len(committed) + 1)]
    first, second = (event["committed"] for event in run.events if event["event"] == "started")
    assert first == 0 < second < len(committed)
    heard: list[tuple[int, int, int]] = []
    for event in run.events:
        if event["event"] == "started":
            heard = heard[: 2 * event["committed"]]  # what was heard after the last commit is lost with the server
        elif event["event"] == "reported":
            heard.append((event["round"], event["attempt"], event["partition"]))
    assert len(set(heard)) == len(heard)
