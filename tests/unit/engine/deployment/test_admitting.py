"""Admission of sites: what a request must be, who gets a number, and that no line of the log can be changed."""

from __future__ import annotations

import json
import os
import shutil
import time
import tracemalloc
from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.commands import admit as admit_module
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import admitting
from fedlearn.engine.deployment.admitting import Admissions, fingerprint_of, make_request, read_request
from fedlearn.engine.deployment.deployment_keys import make_keys, new_node_key, public_line
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.secure.key_agreement import NodeKey, listed_keys, node_keys_in

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def asked(folder, name="St. Ann, radiology"):
    return read_request(make_request(folder, name=name, server="fl.example.org:8443").read_bytes())


def rewritten(request, **changes):
    return json.dumps(asdict(replace(request, **changes))).encode()


def test_a_request_is_signed_by_the_key_that_never_leaves_and_is_made_once(tmp_path):
    one = asked(tmp_path)
    assert asked(tmp_path, "another name") == one
    key = NodeKey((tmp_path / "own.key").read_bytes())
    assert node_keys_in(one.key.encode()) == {key.public} and one.warnings() == []
    assert (tmp_path / "own.key").stat().st_mode & 0o777 == 0o600
    assert key.file.decode().splitlines()[1] not in (tmp_path / "request.json").read_text()
    assert len(one.fingerprint) == 39 and one.fingerprint != asked(tmp_path / "two").fingerprint


@pytest.mark.parametrize("change", ["name", "server", "made", "key", "signature"])
def test_a_request_that_was_changed_or_is_signed_by_another_key_is_refused(tmp_path, change):
    one, other = asked(tmp_path / "one"), asked(tmp_path / "two", "other")
    with pytest.raises(UsageError, match="its signature is not that of its key"):
        read_request(rewritten(one, **{change: getattr(replace(other, server="x", made="y"), change)}))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff\xfe", b"[]", b"{}", b'{"name": "x"}', b"[" * 100_000, b'{"name": "' + b"x" * (1 << 15) + b'"}',
        b'{"name": 1, "key": 2, "made": 3, "server": 4, "signature": "zz"}',
        b'{"name": "x", "key": "ssh-rsa AAAA", "made": "", "server": "", "signature": ""}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_one_line(data):
    with pytest.raises(UsageError, match="it is no request of a site") as refused:
        read_request(data)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["", "  ", "x" * 81, "two\nlines", "\x1b[31mred", "\u202eevil"])
def test_a_name_that_hides_something_is_refused_also_where_it_is_signed(tmp_path, name, monkeypatch):
    with pytest.raises(UsageError, match="give a printable name"):
        make_request(tmp_path, name=name, server="x")
    monkeypatch.setattr(admitting, "printable", lambda text: text)
    monkeypatch.setattr(admitting, "LONGEST_NAME", 1000)
    if name.strip():
        file = make_request(tmp_path, name=name, server="x")
        monkeypatch.undo()
        with pytest.raises(UsageError, match="its name is not a printable one"):
            read_request(file.read_bytes())


def test_letters_that_look_like_others_are_named(tmp_path):
    assert asked(tmp_path / "a", "Zürich, Hôpital").warnings() == []
    (said,) = asked(tmp_path / "b", "St. \u0410nn").warnings()
    assert "cyrillic capital letter a" in said


def test_an_approved_site_has_a_number_a_refused_one_stays_refused_and_a_revoked_one_is_gone(tmp_path):
    make_keys(tmp_path, clients=2)
    found, folder = Admissions(tmp_path, now=NOW), tmp_path / "public" / "nodes"
    sites = [asked(tmp_path / str(number), f"site {number}") for number in range(3)]
    for each in sites:
        assert found.receive(each).step == "received" and found.receive(each).step == "received"
    assert [found.approve(each.fingerprint[:9]).client for each in sites[:2]] == [2, 3]
    assert node_keys_in((folder / "2.pub").read_bytes()) == node_keys_in(sites[0].key.encode())
    make_keys(tmp_path, clients=4)  # a later call leaves them as they are
    assert not (tmp_path / "nodes" / "2").exists()
    found.refuse(sites[2].fingerprint, why="unknown by telephone")
    found.revoke(sites[0].fingerprint, why="stolen laptop")
    assert not (folder / "2.pub").exists() and (folder / "3.pub").exists()
    for each, step in zip(sites, ("revoked", "approved", "refused"), strict=True):
        assert found.receive(each).step == step  # a request that comes again changes nothing
    for which in (sites[0].fingerprint, sites[2].fingerprint, "", "zz"):
        with pytest.raises(UsageError):
            found.approve(which)
    new = asked(tmp_path / "again", "site 0")
    found.receive(new)
    assert found.approve(new.fingerprint).client == 4  # no number is given twice
    assert [each.step for each in found.steps()] == [
        "received", "received", "received", "approved", "approved", "refused", "revoked", "received", "approved",
    ]  # fmt: skip
    assert found.steps()[6].why == "stolen laptop" and found.steps()[6].who and found.steps()[6].when


def test_the_key_of_a_client_keeps_its_number_and_leaves_no_second_line_when_it_is_revoked(tmp_path):
    make_keys(tmp_path, clients=2)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "own.key").write_bytes((tmp_path / "nodes" / "1").read_bytes())
    found, site = Admissions(tmp_path, now=NOW), asked(tmp_path / "site")
    found.receive(site)
    assert found.approve(site.fingerprint).client == 1
    found.revoke(site.fingerprint, why="stolen")
    assert [path.name for path in (tmp_path / "public" / "nodes").iterdir()] == ["0.pub"]  # that a submit registers


def test_an_approval_ends_at_its_time(tmp_path):
    found, site = Admissions(tmp_path, now=NOW), asked(tmp_path / "site")
    found.receive(site)
    found.approve(site.fingerprint, until=NOW + timedelta(days=1))
    assert found.expire() == []
    (over,) = Admissions(tmp_path, now=NOW + timedelta(days=1)).expire()
    assert over.step == "expired" and not (tmp_path / "public" / "nodes" / "0.pub").exists()


def test_requests_of_strangers_take_a_bounded_place_and_decided_ones_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(admitting, "MOST_WAITING", 2)
    found, sites = Admissions(tmp_path, now=NOW), [asked(tmp_path / str(number)) for number in range(3)]
    for each in sites[:2]:
        found.receive(each)
    size = (tmp_path / "admissions.log").stat().st_size
    for _ in range(3):
        with pytest.raises(UsageError, match="2 requests wait already"):
            found.receive(sites[2])
    assert (tmp_path / "admissions.log").stat().st_size == size
    found.refuse(sites[0].fingerprint, why="nobody")
    assert found.receive(sites[2]).step == "received"


@pytest.mark.long
def test_ten_thousand_requests_of_strangers_take_a_bounded_place_and_harm_no_admitted_site(tmp_path):
    found, honest = Admissions(tmp_path, now=NOW), asked(tmp_path / "site")
    found.receive(honest)
    found.approve(honest.fingerprint)
    strangers = [replace(honest, name=f"site {each}", key=public_line(new_node_key())) for each in range(10_000)]
    outcomes, began = Counter(), time.process_time()
    tracemalloc.start()
    for each in strangers:
        try:
            outcomes[found.receive(each).step] += 1
        except UsageError:
            outcomes["no room"] += 1
    grown, seconds = tracemalloc.get_traced_memory()[0], time.process_time() - began
    tracemalloc.stop()
    size = (tmp_path / "admissions.log").stat().st_size
    print(f"{outcomes}, {size:,} bytes of log, {grown:,} bytes of memory, {seconds:.1f} CPU seconds")
    assert outcomes == {"received": 1000, "no room": 9000}
    assert size < 1000 * (admitting.MOST_WAITING + 2) and grown < 10_000 * admitting.MOST_WAITING
    assert found.latest()[honest.fingerprint].step == "approved"
    assert found.receive(rotated(tmp_path / "site")).step == "approved"  # also now
    assert len(Admissions(tmp_path).steps()) == 1003  # the whole chain, read anew
    found.refuse(fingerprint_of(strangers[0].key), why="nobody")
    assert found.receive(strangers[-1]).step == "received"  # a decision gives room


def test_receiving_reads_no_line_twice(tmp_path, monkeypatch):
    found, sites = Admissions(tmp_path, now=NOW), [asked(tmp_path / str(each)) for each in range(3)]
    monkeypatch.setattr(LedgerFile, "read", reads := Counted(LedgerFile.read))
    for each in (*sites, *sites):
        found.receive(each)
    assert reads.count == 1
    Admissions(tmp_path, now=NOW).refuse(sites[0].fingerprint, why="by another process")
    assert found.receive(sites[0]).step == "refused" and reads.count == 3  # the other one read it, and this one anew
    log = tmp_path / "admissions.log"
    times = log.stat()
    log.write_bytes(log.read_bytes().replace(b"St. Ann", b"St. Eve"))
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if nothing had happened
    with pytest.raises(LedgerDamaged, match="line 1 was changed"):
        found.receive(sites[1])


class Counted:
    def __init__(self, function):
        self.function, self.count = function, 0

    def __get__(self, owner, kind=None):
        def call():
            self.count += 1
            return self.function(owner)

        return call


@pytest.mark.parametrize("way", ["edited", "cut", "reordered", "removed"])
def test_a_log_that_was_changed_is_found(tmp_path, way):
    found, sites = (
        Admissions(tmp_path, now=NOW),
        [asked(tmp_path / str(number), f"site {number}") for number in range(3)],
    )
    for each in sites:
        found.receive(each)
    log = tmp_path / "admissions.log"
    lines = log.read_bytes().splitlines(keepends=True)
    changed = {
        "edited": [lines[0], lines[1].replace(b"site 1", b"site 9"), lines[2]], "cut": lines[:2],
        "reordered": [lines[1], lines[0], lines[2]], "removed": [],
    }[way]  # fmt: skip
    log.write_bytes(b"".join(changed))
    if way == "removed":
        log.unlink()
    with pytest.raises(LedgerDamaged):
        found.steps()
    with pytest.raises(LedgerDamaged):
        found.approve(sites[0].fingerprint)


def rotated(folder, *, to="own"):
    """Make a new key as a site does, and put it in the place of the old one."""
    request = read_request(admitting.make_rotation(folder).read_bytes())
    assert read_request(admitting.make_rotation(folder).read_bytes()) == request  # asked again, it makes no other
    (folder / "own.key").rename(folder / "own.old")
    (folder / "own.new").rename(folder / "own.key")
    return request


def test_a_key_that_the_present_one_has_signed_takes_its_place_and_inherits_number_end_and_fingerprint(tmp_path):
    found, site = Admissions(tmp_path, now=NOW), asked(tmp_path / "site")
    found.receive(site)
    found.approve(site.fingerprint, until=NOW + timedelta(days=1))
    first, file = NodeKey((tmp_path / "site" / "own.key").read_bytes()).public, tmp_path / "public" / "nodes" / "0.pub"
    for _ in range(2):
        new = rotated(tmp_path / "site")
        step = found.receive(new)
        assert (step.step, step.client, step.fingerprint) == ("approved", 0, site.fingerprint)
        (listed,) = listed_keys(file.read_bytes())
        assert listed.first == first  # the name of the site in its peers' lists and in remembered sets
        assert listed.key == NodeKey((tmp_path / "site" / "own.key").read_bytes()).public != first
    assert len(found.keys_before()) == 2 and len(found.steps()) == 4
    (over,) = Admissions(tmp_path, now=NOW + timedelta(days=1)).expire()
    assert over.step == "expired" and not file.exists()


def test_a_stolen_old_key_a_replayed_rotation_and_a_revoked_client_get_no_new_key(tmp_path):
    found, site = Admissions(tmp_path, now=NOW), asked(tmp_path / "site")
    with pytest.raises(UsageError, match="it has 0 keys"):
        admitting.make_rotation(tmp_path / "nothing")
    found.receive(site)
    shutil.copytree(tmp_path / "site", tmp_path / "thief")
    with pytest.raises(UsageError, match="does not follow"):  # that was not admitted
        found.receive(rotated(tmp_path / "thief"))
    found.approve(site.fingerprint)
    shutil.rmtree(tmp_path / "thief")
    shutil.copytree(tmp_path / "site", tmp_path / "thief")
    second = rotated(tmp_path / "site")
    found.receive(second)
    with pytest.raises(UsageError, match="does not follow the present key"):
        found.receive(rotated(tmp_path / "thief"))
    third = rotated(tmp_path / "site")
    found.receive(third)
    for old in (site, second):  # what was sent before gives no old key back
        with pytest.raises(UsageError, match="does not follow the present key"):
            found.receive(old)
    forged = rewritten(third, key=third.key.rpartition(" follows=")[0])
    with pytest.raises(UsageError, match="its signature"):
        read_request(forged)
    found.revoke(site.fingerprint, why="stolen")
    assert found.receive(rotated(tmp_path / "site")).step == "revoked"
    assert not (tmp_path / "public" / "nodes" / "0.pub").exists()


class Fake:
    """The Control API of a server that runs."""

    nodes: ClassVar[dict[bytes, int]] = {}

    def __init__(self, address, certificates):
        assert address == "127.0.0.1:8000" and certificates.startswith(b"-----BEGIN CERTIFICATE")

    def registered(self):
        return dict(self.nodes)

    online: ClassVar[set[bytes]] = set()

    def online_keys(self):
        return set(self.online)

    def register(self, file, *, name):
        from fedlearn.flower.control import key_as_registered

        self.nodes[key_as_registered(file.read_bytes(), name)] = len(self.nodes) + 7
        return True

    def unregister(self, node):
        Fake.nodes = {key: each for key, each in self.nodes.items() if each != node}

    def close(self):
        pass


def test_a_week_of_an_operator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_keys(tmp_path / "keys", clients=1)
    monkeypatch.setattr("fedlearn.flower.control.Control", Fake)
    monkeypatch.setattr(Fake, "nodes", {})
    is_up = []
    monkeypatch.setattr("fedlearn.engine.deployment.server_processes.answers", lambda address: bool(is_up))

    def said(*words, code=0):
        ended = CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})
        assert ended.exit_code == code, ended.output
        return f"{ended.output}{ended.exception if code else ''}"

    shown = said("request", "--name", "St. Ann", "--server", "fl.example.org:8443", "--folder", "site")
    fingerprint = shown.split("fingerprint ")[1].split()[0]
    assert "own.key" in shown and fingerprint in said("admit", "site/request.json")
    assert "received" in said("admit") and "St. Ann" in said("admit")
    approved = said("admit", "--approve", fingerprint[:9], "--until", "2099-01-01")
    assert "St. Ann is client 1" in approved and "no server answers" in approved
    is_up.append(1)
    assert "client 1 is registered" in said("admit") and len(Fake.nodes) == 1
    assert "registered" not in said("admit")
    assert "rotation.json" in said("request", "--rotate", "--folder", "site")
    assert "--name" in said("request", "--rotate", "--name", "x", "--folder", "site", code=1)
    shown = said("admit", "site/rotation.json")
    assert "approved" in shown and "client 1 is registered" in shown and "the key before ends when" in shown
    assert len(Fake.nodes) == 2 and "ends when" in said("admit")
    Fake.online = set(Fake.nodes)
    assert "the key before is accepted no more" in said("admit") and len(Fake.nodes) == 1
    assert "--why TEXT" in said("admit", "--revoke", fingerprint, code=1)
    assert "accepted no more" in said("admit", "--revoke", fingerprint, "--why", "the key was lost") and not Fake.nodes
    assert "4 steps, each as it was written" in said("admit", "--verify")
    steps = json.loads(said("admit", "--log", "--json", "--superlink", ""))
    assert [each["step"] for each in steps] == ["received", "approved", "approved", "revoked"]
    log = tmp_path / "keys" / "admissions.log"
    log.write_bytes(log.read_bytes().replace(b"the key was lost", b"the key was sold"))
    assert "line 4 was changed" in said("admit", "--verify", code=1)
    assert "one at a time" in said("admit", "--approve", "a", "--revoke", "b", code=1)
    assert "--until 'soon'" in said("admit", "--approve", "a", "--until", "soon", code=1)
    assert admit_module.CA == "public/ca.crt"
