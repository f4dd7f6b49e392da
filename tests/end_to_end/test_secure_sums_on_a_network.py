"""Secure sums of five real SuperNodes that list one another as peers, one of which vanishes after it has shared."""

from __future__ import annotations

import shutil
import signal
from functools import partial

import pytest

from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.privacy.bookings import bookings
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile, names_in
from tests.compose.federation import Federation, why_not

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 600.0  # seconds for a run on a loaded machine
SETTINGS = {
    "clients": 5, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.quorum": 0.8,
    "rounds.selection_window": 120.0, "rounds.max_attempts": 3,
    "rounds.reporting_deadline": 120.0, "data.dataset": "digits",
    "model.name": "faulty:model", "training.local_epochs": 1, "secure.sums": "masked", "secure.dropouts": 0.2,
}  # fmt: skip


def list_peers(federation, keys, clients=5):
    """Make the nodes' keys before the federation would, and a list of the public ones for every client."""
    make_keys(keys, clients=clients)
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
        assert "takes part in secure sums alone, with 5 listed clients" in one.client_of(0).read_log()
        stored = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    finally:
        one.stack.down()
    monkeypatch.setenv("FAULTS", fault)
    simulated = execute(SETTINGS, engine="inline")
    assert run.summary["model_sha256"] == simulated.sha
    committed = [event for event in run.events if event["event"] == "committed"]
    assert [(each["reported"], each["failed"]) for each in committed] == [(5, 0), (4, 1)]
    assert "against an active one only where clients list one another as peers" in " ".join(run.summary["notices"])
    assert b'"seed":' not in stored.replace(b'"seed": 1', b"")


WHEN = (["selected", "configured", "reported"], ["unmasking", "unmasking"])
"""Of two runs, the event of each round at which the server is killed: while secrets are shared, in training, at the
signatures, and once the sum was asked for. A job is begun again three times at most."""


@pytest.mark.long
def test_a_server_killed_in_every_exchange_ends_with_the_bytes_of_the_simulation(tmp_path, execute):
    one = Federation(tmp_path / "net", clients=5, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    settings = {**SETTINGS, "rounds.quorum": 1.0, "rounds.max_attempts": 9, "model.name": "linear"}
    runs = []
    try:
        one.up()
        for events in WHEN:
            run = one.submit({**settings, "rounds.total": len(events)})
            for number, event in enumerate(events, start=1):
                one.stack.until(partial(run.has, event, round=number), f"{event} in round {number}", PATIENCE)
                _, *forked = one.stack["serverapp"].processes("deployment.executor")
                if forked:  # the server app: the executor forks it
                    forked[-1].send_signal(signal.SIGKILL)
            assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
            runs.append(run)
    finally:
        one.stack.down()
    for run, events in zip(runs, WHEN, strict=True):
        simulated = execute({**settings, "rounds.total": len(events)}, engine="inline")
        assert run.summary["model_sha256"] == simulated.sha
        assert len([event for event in run.events if event["event"] == "started"]) == 1 + len(events)
        asked = {(event["round"], event["attempt"]) for event in run.events if event["event"] == "unmasking"}
        assert len(asked) == len(events)  # one attempt of each round, however often it was asked for


SHARED = {
    **{name: value for name, value in SETTINGS.items() if name not in ("model.name", "training.local_epochs")},
    "data.dataset": "diabetes", "model.name": "dp-boosting", "strategy.name": "sums", "privacy.trust": "distributed",
    "rounds.minimum_ready": 1.0, "rounds.quorum": 0.8,
}  # fmt: skip


def test_five_supernodes_share_the_noise_of_their_sum_and_each_pays_for_all_of_it(tmp_path):
    ledger = tmp_path / "ledger"
    owners = {"FEDLEARN_LEDGER": str(ledger), "FEDLEARN_DATA_NAME": "patients", "FEDLEARN_LARGEST_EPSILON": "1"}
    one = Federation(tmp_path / "net", clients=5, variables=owners, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.up()
        run = one.submit(SHARED)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        unmasked = one.submit({**SHARED, "secure.sums": "off", "rounds.max_attempts": 1})
        assert one.stack.wait(unmasked.job.name, PATIENCE) != 0
    finally:
        one.stack.down()
    (name,) = names_in(ledger)
    booked = bookings(Ledger(LedgerFile(ledger, name)).entries())
    spent = {share: sum(each.epsilon for each in booked if each.run == share) for share in {b.run for b in booked}}
    assert sorted(spent.values()) == [pytest.approx(1.0)] * 5  # of each node; the settings of the run are one
    assert all(each.is_secure for each in booked)
    assert run.summary["epsilon"] == pytest.approx(1.0)
    assert "where nobody sees less than a sum of 4 reports" in run.summary["noise_notice"]
