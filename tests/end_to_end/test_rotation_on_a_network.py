"""A key that is rotated amid masked sums changes no byte; a client that is revoked in mid-run ends exact sums."""

from __future__ import annotations

import shutil
import signal
from functools import partial

import pytest

from fedlearn.secure.key_agreement import listed_keys
from tests.compose.federation import Federation, why_not
from tests.end_to_end.conftest import end_of
from tests.end_to_end.test_analyses_on_a_network import ASKED
from tests.end_to_end.test_secure_sums_on_a_network import PATIENCE, SETTINGS, list_peers

pytestmark = [
    pytest.mark.long, pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not()),
]  # fmt: skip
MASKED = {**SETTINGS, "rounds.total": 6, "rounds.quorum": 1.0, "rounds.max_attempts": 20, "model.name": "linear"}


class Site:
    """Client 4 as its owner sees it, and the operator of the server."""

    def __init__(self, one, folder, capsys):
        self.folder, self._capsys = folder, capsys
        self._server = ("--keys", one.volume("public").parent, "--superlink", f"{one.address('superlink')}:8000")
        folder.mkdir()
        shutil.copy(one.volume("node-keys") / "4", folder / "own.key")
        asking = self.said("request", "--name", "St. Ann", "--server", "localhost:8443", "--folder", folder)
        self.fingerprint = asking.split("fingerprint ")[1].split()[0]
        self.admit(folder / "request.json")
        assert "St. Ann is client 4" in self.admit("--approve", self.fingerprint)

    def said(self, *words):
        self._capsys.readouterr()
        assert end_of(*words) == 0
        return self._capsys.readouterr().out

    def admit(self, *words):
        return self.said("admit", *words, *self._server)


def test_a_key_that_is_rotated_in_a_masked_run_changes_no_byte(tmp_path, capsys, execute):
    one = Federation(tmp_path / "net", clients=5, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.up()
        run = one.submit(MASKED)
        one.stack.until(partial(run.has, "committed", round=1), "round 1", PATIENCE)
        site, peers = Site(one, tmp_path / "site", capsys), one.faults / "peers"
        site.said("request", "--rotate", "--folder", site.folder)
        assert "ends when" in site.admit(site.folder / "rotation.json")
        before = {each.first for each in listed_keys(peers.read_bytes())}
        site.said("peers", peers, "--add", one.volume("public") / "nodes" / "4.pub")  # no fingerprint is needed
        listed = listed_keys(peers.read_bytes())
        assert {each.first for each in listed} == before and sum(each.key != each.first for each in listed) == 1
        shutil.copy(site.folder / "own.new", one.volume("node-keys") / "4")
        one.client_of(4).send(signal.SIGKILL)  # it is started again, with the new key
        one.stack.until(lambda: "accepted no more" in site.admit(), "the new key", PATIENCE)
        at = max(event["round"] for event in run.events if event["event"] == "committed")
        assert at < MASKED["rounds.total"]
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    committed = [event for event in run.events if event["event"] == "committed"]
    print([(event["round"], event["attempt"], event["reported"]) for event in committed])
    assert {event["reported"] for event in committed} == {5} and len(committed) == MASKED["rounds.total"]
    assert run.summary["model_sha256"] == execute(MASKED, engine="inline").sha


def test_an_exact_sum_ends_once_a_client_is_revoked_in_mid_run(tmp_path, capsys):
    owners = {
        "FEDLEARN_LEDGER": str(tmp_path / "ledger"), "FEDLEARN_DATA_NAME": "patients",
        "FEDLEARN_LARGEST_EPSILON": "1", "FEDLEARN_MODELS": "faulty_analysis:ANALYSIS",
    }  # fmt: skip
    asked = {
        **ASKED,
        "model.name": "faulty_analysis:ANALYSIS",
        "model.options": {"family": "poisson"},
        "rounds.max_attempts": 2,
    }
    one = Federation(tmp_path / "net", clients=5, variables=owners, of_clients={"FEDLEARN_PEERS": "/faults/peers"})
    list_peers(one, tmp_path / "keys")
    try:
        one.fault("slow:4:2")
        one.up()
        run = one.submit(asked)
        one.stack.until(partial(run.has, "committed", round=1), "the first sum", PATIENCE)
        site = Site(one, tmp_path / "site", capsys)
        assert "accepted no more" in site.admit("--revoke", site.fingerprint, "--why", "the site has left")
        assert one.stack.wait(run.job.name, PATIENCE) == 1, one.stack.story(60)
    finally:
        one.stack.down()
    reasons = [event["reason"] for event in run.events if event["event"] == "abandoned"]
    print(reasons, run.last_line, sep="\n")
    assert [event["round"] for event in run.events if event["event"] == "committed"] == [1]
    assert any("tells-of-one" in reason for reason in reasons)
