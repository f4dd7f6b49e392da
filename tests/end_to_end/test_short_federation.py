"""Three nodes over TLS whose run loses its server app while secrets are shared, and the run after it: within a minute.

The one federation of `make test`; the others are marked `network`.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.test_secure_sums_on_a_network import SETTINGS, list_peers

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 120.0  # seconds for a run on a loaded machine
SHORT = {**SETTINGS, "clients": 3, "secure.dropouts": 0.0, "rounds.quorum": 1.0, "model.name": "linear"}


def test_nodes_that_have_met_an_ended_run_take_part_in_the_next_with_the_bytes_of_the_simulation(tmp_path, execute):
    one = Federation(tmp_path / "net", clients=3, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys", clients=3)
    try:
        one.up()
        killed = one.submit(SHORT)
        one.stack.until(lambda: killed.has("selected"), "the exchange of shares", PATIENCE)
        _, *forked = one.stack["serverapp"].processes("deployment.executor")
        forked[-1].send_signal(signal.SIGKILL)
        assert one.stack.wait(killed.job.name, PATIENCE) == 0, one.stack.story(60)
        node = one.client_of(1)
        before = node.read_log().count("SuperNode ID")
        (supernode,) = node.processes("deployment.supernode")
        supernode.send_signal(signal.SIGTERM)
        one.stack.until(lambda: node.read_log().count("SuperNode ID") > before, "the node", PATIENCE)
        begin = time.monotonic()
        after = one.submit(SHORT)
        assert one.stack.wait(after.job.name, PATIENCE) == 0, one.stack.story(60)
        seconds = time.monotonic() - begin
    finally:
        one.stack.down()
    simulated = execute(SHORT, engine="inline")
    for run in (killed, after):
        assert run.summary["model_sha256"] == simulated.sha
    assert len([event for event in killed.events if event["event"] == "started"]) == 2
    assert [event["attempt"] for event in after.events if event["event"] == "committed"] == [1, 1], seconds
