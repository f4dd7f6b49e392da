"""A backup is restored whole or not at all, and a crafted backup writes no file outside of the folder."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.engine.deployment import server_backup
from fedlearn.engine.deployment.admitting import Admissions, make_request, make_rotation, read_request
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.engine.deployment.server_backup import back_up, restore


@pytest.fixture
def server(tmp_path):
    place = tmp_path / "server"
    make_keys(place / "keys", clients=1)
    for name in ("first", "second"):
        (place / "runs" / name / "kept").mkdir(parents=True)
        (place / "runs" / name / "state.npz").write_bytes(name.encode() * 1000)
        (place / "runs" / name / "kept" / "state.npz").hardlink_to(place / "runs" / name / "state.npz")
    return place


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_restored_is_what_was_there_and_only_its_owner_can_read_it(server, tmp_path):
    made = back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    assert (tmp_path / "b.tar").stat().st_mode & 0o777 == 0o600 and made.runs == ["first", "second"]
    assert restore(tmp_path / "b.tar", tmp_path / "new").files == made.files == len(files_of(server))
    assert files_of(tmp_path / "new") == files_of(server)
    for name in ("server/server.key", "secret/superexec", "nodes/0"):
        assert (tmp_path / "new" / "keys" / name).stat().st_mode & 0o777 == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"b.tar", "new", "server"}
    with pytest.raises(UsageError, match="is not empty, and nothing is replaced"):
        restore(tmp_path / "b.tar", server)


def test_the_two_commands_show_whom_the_backup_admits(server, tmp_path, monkeypatch):
    monkeypatch.chdir(server)
    found, asked = (
        Admissions(server / "keys"),
        read_request(make_request(tmp_path / "s", name="St. Ann", server="x").read_bytes()),
    )
    found.receive(asked)
    found.approve(asked.fingerprint)
    (server / "runs" / "link").mkdir()
    (server / "runs" / "link" / "out").symlink_to("/etc/passwd")
    said = CliRunner().invoke(app, ["backup", "../b.tar"])
    assert said.exit_code == 0 and "runs/link/out: it is no plain file" in said.output
    found.revoke(asked.fingerprint, why="stolen")
    said = CliRunner().invoke(app, ["restore", "../b.tar", "--folder", "../new"])
    assert said.exit_code == 0 and "client 1, St. Ann" in said.output and "revoke again" in said.output
    assert not (tmp_path / "new" / "runs" / "link").exists()


def test_what_was_decided_since_an_old_backup_counts_where_the_log_is_at_hand(server, tmp_path, monkeypatch):
    monkeypatch.chdir(server)
    found = Admissions(server / "keys")
    sites = [
        read_request(make_request(tmp_path / name, name=name, server="x").read_bytes())
        for name in ("gone", "stays", "new")
    ]
    for each in sites[:2]:
        found.receive(each)
        found.approve(each.fingerprint)
    back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    found.revoke(sites[0].fingerprint, why="stolen")
    found.receive(read_request(make_rotation(tmp_path / "stays").read_bytes()))
    found.receive(sites[2])
    found.approve(sites[2].fingerprint)
    log = (server / "keys" / "admissions.log").read_bytes()
    said = CliRunner().invoke(app, ["restore", "../b.tar", "--folder", "../new", "--log", "keys/admissions.log"])
    assert said.exit_code == 0 and "4 steps came after the backup, and count" in said.output, said.output
    assert "client 2, stays" in said.output and "client 3, new" in said.output and "gone" not in said.output
    assert (tmp_path / "new" / "keys" / "admissions.log").read_bytes() == log
    assert files_of(tmp_path / "new" / "keys" / "public") == files_of(server / "keys" / "public")
    restored = Admissions(tmp_path / "new" / "keys")
    with pytest.raises(UsageError, match="it is revoked"):
        restored.approve(sites[0].fingerprint)

    other = Admissions(tmp_path / "other" / "keys")
    other.receive(sites[1])
    lines = log.splitlines(keepends=True)
    for name, data, why in (
        ("edited", log.replace(b"stolen", b"broken"), "was changed"), ("cut short", log[:-3], "is cut short"),
        ("another", (tmp_path / "other" / "keys" / "admissions.log").read_bytes(), "is the log of another server"),
        ("without the revocation", b"".join([*lines[:4], *lines[5:]]), "was changed"),
    ):  # fmt: skip
        (tmp_path / "log").write_bytes(data)
        with pytest.raises(UsageError, match=why):
            restore(tmp_path / "b.tar", tmp_path / "no", log=tmp_path / "log")
        assert not [*(tmp_path / "no").iterdir()], name
    (tmp_path / "log").write_bytes(b"".join(lines[:2]))  # an older copy changes nothing
    assert restore(tmp_path / "b.tar", tmp_path / "old", log=tmp_path / "log").later == 0


def rewritten(file, change):
    with tarfile.open(file) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]
    with tarfile.open(file, "w") as tar:
        for member, data in change(members):
            member.size = len(data) if member.isfile() else 0
            tar.addfile(member, io.BytesIO(data))


def named(name, data, kind=tarfile.REGTYPE, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, data


def listed(members, *more):
    """Return members of a crafted backup, whose checksums are right: an attacker can compute them, too."""
    files = [*members[:-1], *more]
    sums = {member.name: sha256(data).hexdigest() for member, data in files}
    return [*files, named("backup.json", json.dumps({"made": "x", "runs": [], "sha256": sums}).encode())]


ATTACKS = {
    "edited": lambda m: [(m[0][0], m[0][1] + b"x"), *m[1:]],
    "one file gone": lambda m: m[1:],
    "list gone": lambda m: m[:-1],
    "list of another kind": lambda m: [*m[:-1], named("backup.json", b"[1]")],
    "out of the folder": lambda m: listed(m, named("keys/../../evil", b"x")),
    "absolute": lambda m: listed(m, named("/tmp/evil", b"x")),
    "another folder": lambda m: listed(m, named("ledger/patients.log", b"x")),
    "a link": lambda m: listed(m, named("runs/x", b"", tarfile.SYMTYPE, "/etc")),
    "a hard link": lambda m: listed(m, named("runs/x", b"", tarfile.LNKTYPE, "/etc/passwd")),
    "a device": lambda m: listed(m, named("runs/x", b"", tarfile.CHRTYPE)),
    "twice": lambda m: listed(m, m[0]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_changed_or_hostile_backup_is_refused_and_writes_nothing(server, tmp_path, attack):
    back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    rewritten(tmp_path / "b.tar", ATTACKS[attack])
    with pytest.raises(UsageError, match="it is no whole backup of a server"):
        restore(tmp_path / "b.tar", tmp_path / "new")
    assert [*(tmp_path / "new").iterdir()] == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_backup_that_was_cut_is_refused(server, tmp_path, share):
    back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    whole = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[: int(share * len(whole.rstrip(b"\0")))])
    with pytest.raises(UsageError, match="no whole backup"):
        restore(tmp_path / "b.tar", tmp_path / "new")


def test_a_run_that_is_written_to_is_copied_again_and_never_half(server, tmp_path, monkeypatch):
    monkeypatch.setattr(server_backup, "PAUSE", 0.01)
    first, copied, turns = server / "runs" / "first", server_backup.shutil.copytree, iter(range(3))

    def written_meanwhile(folder, copy, *how, **more):
        copied(folder, copy, *how, **more)
        if folder == first and (turn := next(turns, None)) is not None:
            (folder / "a").write_text(f"{turn}")
            (folder / "state.npz").replace(folder / f"before-{turn}")
            (folder / "state.npz").write_text(f"{turn}")

    monkeypatch.setattr(server_backup.shutil, "copytree", written_meanwhile)
    back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    restore(tmp_path / "b.tar", tmp_path / "new")
    found = files_of(tmp_path / "new" / "runs" / "first")
    assert found["a"] == found["state.npz"] == b"2" and found == files_of(first)


def test_a_backup_that_cannot_be_made_leaves_the_one_before(server, tmp_path, monkeypatch):
    (tmp_path / "b.tar").write_bytes(b"the one before")
    counted = iter(range(10**6))
    monkeypatch.setattr(server_backup, "_seen", lambda folder: next(counted))
    monkeypatch.setattr(server_backup, "PAUSE", 0)
    with pytest.raises(RunFailed, match="back up when this run has ended"):
        back_up(tmp_path / "b.tar", keys=server / "keys", runs=server / "runs")
    assert {each.name: each.is_dir() or each.read_bytes() for each in tmp_path.iterdir()} == {
        "b.tar": b"the one before", "server": True,
    }  # fmt: skip
    for folder, said in (("keys", "outside of"), ("nowhere", "has no public/ca.crt")):
        with pytest.raises(UsageError, match=said):
            back_up(server / "keys" / "b.tar", keys=server / folder, runs=server / "runs")
