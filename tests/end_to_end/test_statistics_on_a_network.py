"""Exact statistics of real SuperNodes, which sign no second set that would tell what one of them has added."""

from __future__ import annotations

import signal

import pytest

import fedlearn
from tests.compose.federation import Federation, why_not
from tests.end_to_end.test_secure_sums_on_a_network import PATIENCE, list_peers

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

ASKED = {
    "clients": 5, "rounds.minimum_ready": 0.8, "rounds.quorum": 0.8, "rounds.selection_window": 30.0,
    "rounds.reporting_deadline": 60.0, "rounds.max_attempts": 1, "data.dataset": "diabetes", "model.name": "statistics",
    "strategy.name": "sums", "rounds.cohort": 0, "rounds.total": 1, "secure.sums": "masked", "secure.dropouts": 0.2,
}  # fmt: skip


def test_four_of_five_nodes_that_have_answered_together_do_not_answer_again(tmp_path):
    owners = {
        "FEDLEARN_LEDGER": str(tmp_path / "ledger"), "FEDLEARN_DATA_NAME": "patients",
        "FEDLEARN_LARGEST_EPSILON": "1", "FEDLEARN_MODELS": "statistics",
    }  # fmt: skip
    one = Federation(tmp_path / "net", clients=5, variables=owners, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.up()
        run = one.submit({**ASKED, "rounds.minimum_ready": 1.0})
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        one.client_of(4).send(signal.SIGSTOP)  # it is still taken for one that is there
        without = one.submit({**ASKED, "seed": 2})
        assert one.stack.wait(without.job.name, PATIENCE) != 0
        assert "tells-of-one" in "".join(one.client_of(node).read_log() for node in range(4))
        (last,) = {event["reason"] for event in without.events if event["event"] == "abandoned"}
        assert "ask the same clients" in last
    finally:
        one.client_of(4).send(signal.SIGCONT)
        one.stack.down()
    assert fedlearn.load(run.folder).model().count > 300
    assert "committed" not in {event["event"] for event in without.events}
