"""Secure sums of five real SuperNodes that list one another as peers, one of which vanishes after it has shared."""

from __future__ import annotations

import shutil

import pytest

from fedlearn.engine.deployment.keys import make_keys
from tests.compose.federation import Federation, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 600.0  # seconds for a run on a loaded machine
SETTINGS = {
    "clients": 5, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.quorum": 0.8,
    "rounds.selection_window": 120.0, "rounds.max_attempts": 3,
    "rounds.reporting_deadline": 120.0, "data.dataset": "digits",
    "model.name": "faulty:model", "training.local_epochs": 1, "secure.sums": "masked", "secure.dropouts": 0.2,
}  # fmt: skip


def list_peers(federation, keys):
    """Make the nodes' keys before the federation would, and a list of the public ones for every client."""
    make_keys(keys, clients=5)
    shutil.copytree(keys / "nodes", federation.volume("node-keys"), dirs_exist_ok=True)
    shutil.copytree(keys / "public" / "nodes", federation.volume("public") / "nodes", dirs_exist_ok=True)
    lines = [path.read_bytes() for path in sorted((keys / "public" / "nodes").iterdir())]
    (federation.faults / "peers").write_bytes(b"\n".join(lines))


def test_sum_of_five_supernodes_of_which_one_vanishes_has_the_bytes_of_the_simulation(tmp_path, monkeypatch, execute):
    fault = "raise:4:2"
    one = Federation(tmp_path / "net", clients=5, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.fault(fault)
        one.up()
        run = one.submit(SETTINGS)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        assert "takes part in secure sums alone, with 5 listed nodes" in one.client_of(0).read_log()
        stored = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    finally:
        one.stack.down()
    monkeypatch.setenv("FAULTS", fault)
    simulated = execute(SETTINGS, engine="inline")
    assert run.summary["model_sha256"] == simulated.sha
    committed = [event for event in run.events if event["event"] == "committed"]
    assert [(each["reported"], each["failed"]) for each in committed] == [(5, 0), (4, 1)]
    assert "against an honest-but-curious server only" in " ".join(run.summary["notices"])
    assert b'"seed":' not in stored.replace(b'"seed": 1', b"")
