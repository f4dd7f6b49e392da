"""Ten histories of three real SuperNodes: whatever was killed, the run that comes next commits at its first attempt."""

from __future__ import annotations

import random
import signal
from contextlib import suppress

import psutil
import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.test_secure_sums_on_a_network import list_peers
from tests.end_to_end.test_short_federation import SHORT

pytestmark = [pytest.mark.network, pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 600.0  # seconds for a run on a loaded machine, one of whose nodes may be away for a minute
MOMENTS = ("round-started", "selected", "configured", "reported")
VICTIMS = ("server app", "server app and job", "task", "executor", "SuperNode")
LONGER = {**SHORT, "rounds.total": 3, "rounds.max_attempts": 9}


def kill(federation, run, victim, node):
    """Kill a part of the federation, while a run is under way."""
    if victim.startswith("server app"):
        if "job" in victim:  # nobody submits the run again
            run.job.stop()
        _, *found = federation.stack["serverapp"].processes("deployment.executor")
        how = signal.SIGKILL
    elif victim == "SuperNode":
        found, how = node.processes("deployment.supernode"), signal.SIGTERM
    else:
        executor, *tasks = node.processes("deployment.executor")
        found, how = ([executor] if victim == "executor" else tasks), signal.SIGKILL
    for process in found[-1:]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(how)


def test_after_ten_histories_of_real_processes_every_fresh_run_commits_at_its_first_attempt(tmp_path, execute):
    rng = random.Random(53)
    one = Federation(tmp_path / "net", clients=3, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys", clients=3)
    simulated = execute(SHORT, engine="inline").sha
    try:
        one.up()
        for _ in range(10):
            run, moment, victim = one.submit(LONGER), rng.choice(MOMENTS), rng.choice(VICTIMS)
            one.stack.until(lambda run=run, moment=moment: run.has(moment, round=2), moment, PATIENCE)
            kill(one, run, victim, one.client_of(rng.randrange(3)))
            if "job" not in victim:
                one.stack.wait(run.job.name, PATIENCE)
            fresh = one.submit(SHORT)
            assert one.stack.wait(fresh.job.name, PATIENCE) == 0, one.stack.story(60)
            committed = [(event["round"], event["attempt"]) for event in fresh.events if event["event"] == "committed"]
            assert committed == [(1, 1)], (victim, moment, fresh.events)
            assert fresh.summary["model_sha256"] == simulated
    finally:
        one.stack.down()
