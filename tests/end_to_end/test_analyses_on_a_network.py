"""Analyses of real SuperNodes: one that vanishes before the first sum is left out, and changes nothing else."""

from __future__ import annotations

import signal

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.test_secure_sums_on_a_network import PATIENCE, list_peers

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

ASKED = {
    "clients": 5, "rounds.minimum_ready": 0.8, "rounds.quorum": 0.8, "rounds.selection_window": 30.0,
    "rounds.reporting_deadline": 30.0, "data.dataset": "diabetes", "strategy.name": "sums", "rounds.cohort": 0,
    "rounds.total": 10, "secure.sums": "masked", "secure.dropouts": 0.2,
}  # fmt: skip
MODELS = {
    "a regression": {"model.name": "faulty_analysis:ANALYSIS", "model.options": {"family": "normal"}},
    "boosted trees": {"model.name": "faulty_analysis:BOOSTED", "model.options": {"max_iter": 1, "max_depth": 2}},
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_supernode_that_vanishes_before_the_first_sum_is_left_out(model, tmp_path, monkeypatch, execute):
    asked = {**ASKED, **model}
    owners = {
        "FEDLEARN_LEDGER": str(tmp_path / "ledger"), "FEDLEARN_DATA_NAME": "patients",
        "FEDLEARN_LARGEST_EPSILON": "1", "FEDLEARN_MODELS": model["model.name"],
    }  # fmt: skip
    one = Federation(tmp_path / "net", clients=5, variables=owners, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.fault("hang:4:1")
        one.up()
        run = one.submit(asked)
        one.wait_for_hang(PATIENCE)  # it has shared its secrets, and masks with the others
        one.client_of(4).send(signal.SIGSTOP)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    committed = [event for event in run.events if event["event"] == "committed"]
    assert {event["reported"] for event in committed} == {4} and len(committed) > 1
    late = [event["late"] for event in committed]
    assert late == [1] + [0] * (len(late) - 1)  # asked for the first sum, and not there for the others
    monkeypatch.setenv("FAULTS", "raise:4:*")
    assert run.summary["model_sha256"] == execute(asked, engine="inline").sha
    for sums in ("unmasked", "off"):  # on the embedded engine
        assert execute({**asked, "secure.sums": sums}).sha == run.summary["model_sha256"]
