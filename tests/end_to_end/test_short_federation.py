"""Three nodes over TLS that meet a run without a server app, of secure sums, and the run after it."""

from __future__ import annotations

import signal
import time

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.test_secure_sums_on_a_network import SETTINGS, list_peers

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 120.0  # seconds for a run on a loaded machine
SHORT = {
    **SETTINGS,
    "clients": 3,
    "secure.dropouts": 0.0,
    "rounds.total": 1,
    "rounds.quorum": 1.0,
    "model.name": "linear",
}
IMPATIENT = {
    **SHORT, "rounds.max_attempts": 20, "rounds.selection_window": 9.0, "rounds.reporting_deadline": 9.0,
    "secure.patience": 3.0,
}  # fmt: skip


def test_nodes_that_have_met_an_ended_run_take_part_in_the_next_with_the_bytes_of_the_simulation(tmp_path, execute):
    one = Federation(tmp_path / "net", clients=3, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys", clients=3)
    try:
        one.up()
        killed = one.submit(IMPATIENT)
        one.stack.until(lambda: killed.has("selected"), "the exchange of shares", PATIENCE)
        nodes = [one.client_of(partition) for partition in range(3)]
        supernodes = [node.processes("deployment.supernode")[0] for node in nodes]
        for supernode in supernodes:
            supernode.suspend()
        one.stack.until(lambda: killed.has("backing-off"), "the end of the attempt", PATIENCE)
        attempts = killed.events[-1]["attempt"]
        one.stack.until(lambda: killed.events[-1].get("attempt", 0) > attempts, "the next attempt", PATIENCE)
        time.sleep(0.5)  # until its questions lie in the SuperLink
        killed.job.send(signal.SIGKILL)  # nobody submits the run again
        _, *forked = one.stack["serverapp"].processes("deployment.executor")
        forked[-1].send_signal(signal.SIGKILL)
        server = one.stack["serverapp"]
        one.stack.until(lambda: "the process was" in server.read_log(), "the end of the server app", PATIENCE)
        time.sleep(2.0)  # until the SuperLink has heard so
        for supernode in supernodes:
            supernode.resume()
        before = nodes[1].read_log().count("SuperNode ID")
        supernodes[1].send_signal(signal.SIGTERM)
        one.stack.until(lambda: nodes[1].read_log().count("SuperNode ID") > before, "the node", PATIENCE)
        run = one.submit(SHORT)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    assert run.summary["model_sha256"] == execute(SHORT, engine="inline").sha
    assert [event["attempt"] for event in run.events if event["event"] == "committed"] == [1]
    assert any("is not in `RUNNING` status. Ignoring message" in node.read_log() for node in nodes)
