"""A site that asks by a signed request is admitted while a federation runs; once revoked, nothing of it is let in."""

from __future__ import annotations

import shutil

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.conftest import end_of

pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())]

PATIENCE = 300.0  # seconds for a run on a loaded machine
ASKED = {
    "clients": 3, "rounds.cohort": 0, "rounds.total": 2, "rounds.minimum_ready": 0.6, "rounds.quorum": 0.6,
    "rounds.selection_window": 30.0, "rounds.reporting_deadline": 30.0, "data.dataset": "digits",
    "model.name": "linear", "training.local_epochs": 1,
}  # fmt: skip


def test_a_site_is_admitted_and_revoked_while_the_server_runs(tmp_path, capsys):
    one = Federation(tmp_path / "net", clients=3)
    try:
        one.up()
        first = one.submit(ASKED)
        assert one.stack.wait(first.job.name, PATIENCE) == 0, one.stack.story(60)
        volumes, site = one.volume("public").parent, tmp_path / "site"
        client = one.client_of(2)
        site.mkdir()
        shutil.copy(one.volume("node-keys") / "2", site / "own.key")  # the key of a client that is there

        def said(*words):
            capsys.readouterr()
            assert end_of(*words) == 0
            return capsys.readouterr().out

        asking = said("request", "--name", "St. Ann", "--server", "localhost:8443", "--folder", site)
        fingerprint = asking.split("fingerprint ")[1].split()[0]
        server = ("--keys", volumes, "--superlink", f"{one.address('superlink')}:8000")
        said("admit", site / "request.json", *server)
        approved = said("admit", "--approve", fingerprint, *server)
        assert "St. Ann is client 2" in approved  # its key is that of client 2, and registered already
        assert "accepted no more" in said("admit", "--revoke", fingerprint, "--why", "a stolen key", *server)
        second = one.submit({**ASKED, "seed": 2})
        assert one.stack.wait(second.job.name, PATIENCE) == 0, one.stack.story(60)
        log = client.read_log()
    finally:
        one.stack.down()
    assert {event["reported"] for event in first.events if event["event"] == "committed"} == {3}
    assert {event["reported"] for event in second.events if event["event"] == "committed"} == {2}
    assert not [event for event in second.events if event.get("partition") == 2]
    assert "Failed to activate SuperNode" in log
