"""A private key under a passphrase is never on the disk in the clear, and a wrong passphrase is one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment.admitting import make_request, make_rotation, read_request
from fedlearn.engine.deployment.deployment_keys import new_node_key, public_line
from fedlearn.engine.deployment.key_passphrase import MARK, VARIABLE, Passphrase, open_key
from fedlearn.secure.key_agreement import NodeKey, node_keys_in


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "wrong").write_text("battery staple\n")
    made = make_request(tmp_path / "keys", name="St. Ann", server="x", passphrase=Passphrase(tmp_path / "phrase"))
    return tmp_path, read_request(made.read_bytes())


def test_a_key_is_encrypted_and_opens_by_its_passphrase_alone(site, monkeypatch):
    folder, request = site
    key = folder / "keys" / "own.key"
    assert key.read_bytes().startswith(MARK) and key.stat().st_mode & 0o777 == 0o600
    opened = Passphrase(folder / "phrase").opened(key)
    assert node_keys_in(request.key.encode()) == {NodeKey(opened).public}
    with pytest.raises(UsageError, match="the passphrase is wrong"):
        Passphrase(folder / "wrong").opened(key)
    monkeypatch.setattr("fedlearn.engine.deployment.key_passphrase.sys", type("", (), {"stdin": Terminal(False)}))
    with pytest.raises(UsageError, match="give --passphrase-file FILE, or the variable FEDLEARN_PASSPHRASE"):
        Passphrase().opened(key)
    monkeypatch.setenv(VARIABLE, "correct horse")
    assert public_line(Passphrase().opened(key)) == request.key and VARIABLE not in os.environ  # no child has it


def test_a_rotated_key_has_the_passphrase_of_the_one_before(site):
    folder, request = site
    rotated = read_request(make_rotation(folder / "keys", Passphrase(folder / "phrase")).read_bytes())
    new = folder / "keys" / "own.new"
    assert new.read_bytes().startswith(MARK) and rotated.fingerprint == request.fingerprint
    assert node_keys_in(rotated.key.encode()) == {NodeKey(Passphrase(folder / "phrase").opened(new)).public}
    with pytest.raises(UsageError, match="the passphrase is wrong"):
        make_rotation(folder / "keys", Passphrase(folder / "wrong"))


def test_children_of_a_client_read_the_key_in_memory_and_the_disk_never_has_it(site):
    folder, request = site
    key = folder / "keys" / "own.key"
    program = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_bytes().decode())"
    with open_key(key, Passphrase(folder / "phrase")) as (path, inherited):
        for _ in range(2):  # a process that is started again reads it from its beginning, too
            done = subprocess.run(
                [sys.executable, "-c", program, path], pass_fds=inherited, capture_output=True, text=True, check=True
            )
            assert public_line(done.stdout.strip().encode() + b"\n") == request.key
        if sys.platform == "linux":
            assert str(path).startswith("/proc/self/fd/") and path.exists() is not False
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert not [each for each in files if b"BEGIN OPENSSH PRIVATE KEY" in each.read_bytes()]
    plain = folder / "plain"
    plain.write_bytes(new_node_key())
    with open_key(plain, Passphrase()) as (path, inherited):
        assert (path, inherited) == (plain, [])


@pytest.mark.parametrize(
    ("words", "typed", "why"),
    [
        (("--passphrase-file", "absent"), None, "absent: it cannot be read"),
        (("--passphrase-file", "empty"), None, "is empty"),
        (("--passphrase",), ("one", "two"), "the two passphrases differ"),
        (("--passphrase",), ("", ""), "is empty"),
    ],
)  # fmt: skip
def test_a_passphrase_that_cannot_be_had_writes_no_key(tmp_path, monkeypatch, words, typed, why):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "empty").write_text("\n")
    answers = iter(typed or ())
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    monkeypatch.setattr("fedlearn.engine.deployment.key_passphrase.sys", type("", (), {"stdin": Terminal()}))
    asked = ("request", "--name", "x", "--server", "y", "--folder", "keys", *words)
    ended = CliRunner().invoke(app, asked)
    assert ended.exit_code != 0 and why in str(ended.exception)
    assert not (tmp_path / "keys" / "own.key").exists() and not (tmp_path / "keys" / "request.json").exists()


class Terminal:
    def __init__(self, is_one=True):
        self.isatty = lambda: is_one


def test_what_is_no_key_is_said_in_one_line(tmp_path):
    (tmp_path / "own.key").write_text("no key")
    with pytest.raises(UsageError, match="it is no private key of a client"):
        make_request(tmp_path, name="x", server="y")
