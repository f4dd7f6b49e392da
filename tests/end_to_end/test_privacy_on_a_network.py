"""Real SuperNodes that protect nodes or records, or wait between turns: the simulation's bytes, and who paid."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial

import pytest

from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from fedlearn.privacy.bookings import bookings
from fedlearn.privacy.budget import PrivacyUnit
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile, names_in
from tests.compose.federation import Federation, why_not
from tests.end_to_end.conftest import Run
from tests.end_to_end.test_correlated_noise import closest, states_in
from tests.end_to_end.test_secure_sums_on_a_network import PATIENCE, list_peers

pytestmark = [
    pytest.mark.network,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

ALL = {
    "clients": 5, "rounds.total": 2, "rounds.cohort": 0, "rounds.minimum_ready": 1.0, "rounds.quorum": 0.8,
    "rounds.selection_window": 120.0, "rounds.reporting_deadline": 120.0, "rounds.max_attempts": 3,
    "data.dataset": "digits", "model.name": "faulty:model", "training.local_epochs": 1, "privacy.noise": "seeded",
    "privacy.epsilon": 4.0, "privacy.delta": 1e-5,
}  # fmt: skip


def owners(ledger, *, most, models):
    """Return the policy of a node's owner, who also lets noise be seeded: two runs can be compared then."""
    return {
        "FEDLEARN_LEDGER": str(ledger), "FEDLEARN_DATA_NAME": "all", "FEDLEARN_LARGEST_EPSILON": str(most),
        "FEDLEARN_DELTA": "1e-5", "FEDLEARN_MODELS": models, "FEDLEARN_SEEDED_NOISE": "true",
    }  # fmt: skip


def start_with_ledgers_of_their_own(one):
    """Start all services, and five clients with a name each for their data: a ledger each."""
    one.stack.up("serverapp")
    for number in range(5):
        own = {"FEDLEARN_DATA_NAME": f"site-{number}"}
        one.stack.add("client", environment={**one.stack.services["client"].environment, **own})


def booked_by_each(ledger, *, most):
    assert names_in(ledger) == [f"site-{number}" for number in range(5)]
    return [Ledger(LedgerFile(ledger, name), most=most, delta=1e-5) for name in names_in(ledger)]


SHARED = {
    **ALL, "privacy.protects": "nodes", "privacy.trust": "distributed", "privacy.clip": 0.5, "secure.sums": "masked",
    "secure.dropouts": 0.2,
}  # fmt: skip


def test_five_supernodes_share_the_noise_of_their_changes_and_one_vanishes(tmp_path, monkeypatch, execute):
    fault, ledger = "raise:4:2", tmp_path / "ledger"
    one = Federation(
        tmp_path / "net", clients=5, started=0, variables=owners(ledger, most=6, models="faulty:model"),
        of_clients={"FEDLEARN_PEERS": "/faults/peers"},
    )  # fmt: skip
    list_peers(one, tmp_path / "keys")
    try:
        one.fault(fault)
        start_with_ledgers_of_their_own(one)
        run = one.submit(SHARED)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    monkeypatch.setenv("FAULTS", fault)
    simulated = execute(SHARED, engine="inline")
    assert run.summary["model_sha256"] == simulated.sha
    committed = [event for event in run.events if event["event"] == "committed"]
    assert [(each["reported"], each["failed"]) for each in committed] == [(5, 0), (4, 1)]
    assert run.summary["epsilon"] == simulated.summary["epsilon"] == pytest.approx(4.0)
    published = 0
    for each in booked_by_each(ledger, most=6):  # that of the lost node, too: it was asked, and had paid when it failed
        paid = bookings(each.entries())
        assert [(line.round_number, line.unit) for line in paid] == [(1, PrivacyUnit.NODE), (2, PrivacyUnit.NODE)]
        assert {line.mechanism for line in paid} == {GaussianRounds(run.summary["noise_multiplier"], 1)}
        assert epsilon_of([line.mechanism for line in paid], delta=1e-5) == pytest.approx(run.summary["epsilon"])
        published += len(each.entries()) - len(paid)
    assert published == 9


RECORDS = {
    **ALL, "model.name": "linear", "privacy.protects": "records", "privacy.records": 280,
    "training.batch_size": 40, "privacy.epsilon": 2.0,
}  # fmt: skip


def test_each_of_five_ledgers_pays_for_its_records_and_a_spent_one_is_not_ready(tmp_path, execute):
    ledger = tmp_path / "ledger"
    one = Federation(tmp_path / "net", clients=5, started=0, variables=owners(ledger, most=2, models="linear"))
    try:
        start_with_ledgers_of_their_own(one)
        run = one.submit(RECORDS)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        again = one.submit(RECORDS)
        assert one.stack.wait(again.job.name, PATIENCE) == 0, one.stack.story(60)
        further = one.submit({**RECORDS, "seed": 2, "rounds.max_attempts": 1, "rounds.selection_window": 40.0})
        assert one.stack.wait(further.job.name, PATIENCE) != 0
        logs = "".join(one.client_of(node).read_log() for node in range(5))
    finally:
        one.stack.down()
    assert run.summary["model_sha256"] == again.summary["model_sha256"] == execute(RECORDS, engine="inline").sha
    for each in booked_by_each(ledger, most=2):
        paid = bookings(each.entries())
        assert [(line.round_number, line.unit) for line in paid] == [(1, PrivacyUnit.RECORD), (2, PrivacyUnit.RECORD)]
        assert epsilon_of([line.mechanism for line in paid], delta=1e-5) == pytest.approx(2.0, rel=1e-3)
        assert 2.0 * (1 - 1e-3) < each.spent().epsilon <= 2.0
    refused = [event for event in further.events if event["event"] == "not-ready"]
    assert Counter(event["reason"] for event in refused).keys() == {"not-ready"} and len(refused) >= 5
    assert logs.count("budget-spent") + logs.count("budget spent") >= 5


WAITING = {
    **ALL, "model.name": "telling:model", "rounds.cohort": 1, "rounds.minimum_ready": 0.2, "rounds.quorum": 1.0,
    "rounds.total": 4, "privacy.protects": "nodes", "privacy.separation": 3, "privacy.clip": 0.5,
    "rounds.max_attempts": 9,
}  # fmt: skip


def test_nodes_of_a_network_wait_and_a_killed_server_tells_no_two_noises_of_one_round(tmp_path, monkeypatch, execute):
    one = Federation(tmp_path / "net", clients=5, of_clients={"TOLD": "/faults/told"})
    told = one.faults / "told"
    try:
        one.up()
        run = one.submit(WAITING)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
        first = states_in(told)
        told.unlink()
        killed = one.submit({**WAITING, "privacy.noise": "secure"})
        for event, number in (("committed", 1), ("configured", 3)):
            one.stack.until(partial(killed.has, event, round=number), f"{event} in round {number}", PATIENCE)
            _, *forked = one.stack["serverapp"].processes("deployment.executor")
            if forked:  # the server app: the executor forks it
                forked[-1].send_signal(signal.SIGKILL)
        assert one.stack.wait(killed.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    monkeypatch.setenv("TOLD", str(tmp_path / "simulated"))
    assert run.summary["model_sha256"] == execute(WAITING, engine="inline").sha
    assert first == states_in(tmp_path / "simulated")
    assert len([event for event in killed.events if event["event"] == "started"]) >= 2
    for submitted, states in ((run, first), (killed, states_in(told))):
        assert sorted(states) == [1, 2, 3, 4] and all(len(each) == 1 for each in states.values()), states
        assert closest(Run(submitted.folder)) >= 3
