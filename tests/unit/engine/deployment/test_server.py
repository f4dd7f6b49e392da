"""What is wrong with a server is said before it starts: all of it by `--check`, the first of it else."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import deployment_keys as keys_module
from fedlearn.engine.deployment import proxy, server_processes
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.engine.processes import free_port

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr(proxy, "nginx", lambda: "/usr/sbin/nginx")
    make_keys(tmp_path / "keys", clients=1)
    return server_processes.ServerOptions(
        keys=tmp_path / "keys", state=tmp_path / "state", runs=tmp_path / "runs",
        listen=f"127.0.0.1:{free_port()}", superlink=f"127.0.0.1:{free_port()}",
    )  # fmt: skip


def test_nothing_is_wrong_with_fresh_keys_and_free_ports(options):
    assert server_processes.check_all(options) == []
    for part in server_processes.PARTS:
        server_processes.check(part, options)


def test_all_mistakes_are_said_at_once_a_line_each_and_once(options, monkeypatch):
    (options.keys / "secret" / "superexec").unlink()
    (options.keys / "server" / "server.key").chmod(0o644)
    monkeypatch.setattr(server_processes, "LEAST_FREE", 1e18)
    monkeypatch.setattr(proxy, "nginx", lambda: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(options.listen.rpartition(":")[2])))
        taken.listen()
        found = server_processes.check_all(options)
    expected = (
        "superexec: there is no such key", "server.key: other users of this machine can read it", "nginx is not",
        "--listen 127.0.0.1", "state: ", "runs: ",
    )  # fmt: skip
    assert len(found) == len(expected) and not [line for line in found if "\n" in line]
    for words in expected:
        assert [line for line in found if words in line], words


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [(-9 * HOUR, -HOUR, "it was valid until"), (HOUR, 9 * HOUR, "set the clock"), (-HOUR, HOUR, "")],
)
def test_a_certificate_that_is_over_or_not_yet_valid_is_said(options, monkeypatch, begin, end, words):
    monkeypatch.setattr(keys_module, "validity", lambda folder: (NOW + begin, NOW + end))
    found = server_processes.check_all(options)
    assert len(found) == bool(words) and words in "".join(found)


def test_a_file_that_is_no_certificate_is_said(options):
    (options.keys / "server" / "server.crt").write_text("no certificate")
    (line,) = server_processes.check_all(options)
    assert "server.crt: it is no certificate" in line and "\n" not in line
    with pytest.raises(UsageError, match="it is no certificate"):
        server_processes.check("superlink", options)


def test_the_command_says_it_and_starts_nothing(options):
    words = ["server", "--check", "--keys", str(options.keys), "--state", str(options.state)]
    words += ["--listen", options.listen, "--superlink", options.superlink, "--runs", str(options.runs)]
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, ended.output) == (0, "nothing is wrong: fedlearn server can start\n")
    (options.keys / "server" / "server.key").unlink()
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1 and ended.output.count("\n") == 1 and "server.key: there is no such key" in ended.output
    assert not options.state.exists()


def test_a_file_has_the_flags_of_a_server_which_win_over_it(options, tmp_path):
    file = tmp_path / "server.toml"
    entries = {name: getattr(options, name) for name in ("keys", "state", "runs", "listen", "superlink")}
    file.write_text("".join(f'{name} = "{value}"\n' for name, value in entries.items()))
    checked = CliRunner().invoke(app, ["server", "--config", str(file), "--check"])
    assert checked.exit_code == 0 and "nothing is wrong" in checked.output
    checked = CliRunner().invoke(app, ["server", "--config", str(file), "--keys", "nowhere", "--check"])
    assert checked.exit_code == 1 and "nowhere/public/ca.crt" in checked.output
    checked = CliRunner().invoke(app, ["server", "--config", str(file), "--listen", "0.0.0.0:8443", "--check"])
    assert options.listen not in checked.output  # also where a flag gives its default


def test_every_mistake_of_a_file_is_said_at_once_and_ends_a_start(tmp_path):
    file = tmp_path / "server.toml"
    file.write_text('listen = 8443\nprot = "x"\nmetrics = "here"\nmetrics-tls = "yes"\nsuperlink = "127.0.0.1:x"\n')
    said = CliRunner().invoke(app, ["server", "--config", str(file), "--check"])
    assert said.exit_code == 1 and len(said.output.splitlines()) == 5
    for word in (
        "listen = '8443': write a text",
        "'prot' is no entry",
        "--metrics here",
        "true or false",
        "--superlink",
    ):
        assert word in said.output
    with pytest.raises(UsageError, match="write a text in quotes"):
        CliRunner().invoke(app, ["server", "--config", str(file)], catch_exceptions=False)
    for text, why in (("x = ", "server.toml"), ("[a]\nb = 1\n", "no entry")):
        file.write_text(text)
        with pytest.raises(UsageError, match=why):
            CliRunner().invoke(app, ["server", "--config", str(file)], catch_exceptions=False)
