"""A server: SuperLink, proxy and the executor of the server app, together on one machine, or one part of the three.

Each part is started again when it dies, while the others go on. `fedlearn.commands.server` is its command;
docker-compose.yml starts each part in a container of its own.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import proxies
from fedlearn.engine.deployment.programs import start_logging
from fedlearn.engine.deployment.services import Service, keep_alive
from fedlearn.runs.files import write_atomically
from fedlearn.runs.machine_usage import beginning_of

SEEN, PROCESS = "clients.json", "server.json"  # in the folder of state
LEAST_FREE = 2e9  # bytes on the disks of state and runs

log = logging.getLogger("server")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the flags of ``fedlearn server`` say, by their names."""

    keys: Path
    state: Path
    listen: str
    superlink: str
    runtime: str = ""
    health: str = ""
    metrics: str = ""
    metrics_token: Path | None = None
    metrics_tls: bool = False
    runs: Path = Path("runs")
    json_lines: bool = False


def run(options: ServerOptions) -> None:
    """Keep all three parts alive until SIGTERM or SIGINT; only the proxy listens to other machines.

    Raises
    ------
    UsageError
        If a key or nginx is missing, a certificate is over, or a port is taken.
    """
    start_logging(json_lines=options.json_lines)
    proxies.keep_local()
    for part in PARTS:
        check(part, options)
    start = partial(Service, json_lines=options.json_lines)
    monitors = [start("monitor", _monitor(options), log)] if options.metrics else []
    options.state.mkdir(parents=True, exist_ok=True)
    about = {"process": os.getpid(), "began": beginning_of(os.getpid())}
    write_atomically(options.state / PROCESS, json.dumps(about).encode())
    log.info("clients reach it at %s, runs are submitted at %s of this machine", options.listen, options.superlink)

    def is_up() -> bool:
        return answers(options.superlink)

    superlink, *others = (partial(start, MODULES[part], words(options), log) for part, words in PARTS.items())
    keep_alive([superlink(), *(other(may_start=is_up) for other in others), *monitors], log)


def become(part: str, options: ServerOptions) -> None:
    """Become one part of a server: this process is replaced."""
    check(part, options)
    proxies.keep_local()
    module = f"fedlearn.engine.deployment.{MODULES[part]}"
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *PARTS[part](options)])


def check(part: str, options: ServerOptions) -> None:
    """Raise UsageError if a part cannot be started."""
    for why in mistakes(part, options):
        raise UsageError(why)


def check_all(options: ServerOptions) -> list[str]:
    """Return everything for which a server could not start, or would soon fail, a line each."""
    found = [why for part in PARTS for why in mistakes(part, options)]
    for name in ("server/server.key", "secret/superexec"):
        file = options.keys / name
        if file.exists() and file.stat().st_mode & 0o077:
            found.append(f"{file}: other users of this machine can read it: chmod 600 {file}")
    for folder in (options.state, options.runs):
        above = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
        if not os.access(above, os.W_OK):
            found.append(f"{folder}: this user cannot write there: chown it, or name another folder")
        elif (free := shutil.disk_usage(above).free) < LEAST_FREE:
            found.append(f"{folder}: {free / 1e9:.1f} GB are free, and {LEAST_FREE / 1e9:g} GB are needed")
    if options.metrics:
        try:
            _monitor(options)
        except UsageError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))


def mistakes(part: str, options: ServerOptions) -> Iterator[str]:
    """Yield why a part cannot be started."""
    for name in NEEDS[part]:
        file = options.keys / name
        if not os.access(file, os.R_OK):
            why = "it cannot be read by this user" if file.exists() else "there is no such key"
            yield f"{file}: {why}; run fedlearn keys --folder {options.keys} --clients N --host NAME"
    if "server/server.crt" in NEEDS[part] and (options.keys / "server" / "server.crt").exists():
        yield from _date(options.keys / "server" / "server.crt", options)
    if part == "superlink":
        yield from _port("--superlink", options.superlink)
    if part == "proxy":
        from fedlearn.engine.deployment.proxy import nginx

        if nginx() is None:
            yield "nginx is not installed, and the proxy is one: apt-get install nginx-light"
        yield from _port("--listen", options.listen)


def _date(file: Path, options: ServerOptions) -> Iterator[str]:
    from fedlearn.engine.deployment.deployment_keys import validity

    try:
        begin, end = validity(options.keys)
    except (OSError, ValueError) as error:
        yield f"{file}: it is no certificate ({error}); delete it, and run fedlearn keys again"
        return
    now = datetime.now(UTC)
    if end < now:
        yield (
            f"{file}: it was valid until {end:%Y-%m-%d}; run fedlearn keys --folder {options.keys} again, with "
            "the same --clients and --host"
        )
    if now < begin:
        yield f"{file}: it is valid from {begin:%Y-%m-%d %H:%M} UTC, and here it is {now:%Y-%m-%d %H:%M}: set the clock"


def _port(flag: str, address: str) -> Iterator[str]:
    host, _, port = address.rpartition(":")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except OSError as error:
        yield f"{flag} {address}: {error.strerror or error}; end the program that uses it, or name another port"


def answers(address: str) -> bool:
    """Return whether something listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _superlink(options: ServerOptions) -> list[str]:
    host, _, port = options.superlink.rpartition(":")
    options.state.mkdir(parents=True, exist_ok=True)
    words = [
        f"--host={host}", f"--port={port}", "--isolation=process", "--disable-runtime-dependency-installation",
        "--enable-supernode-auth", f"--superexec-auth-secret-file={options.keys}/secret/superexec",
        f"--ssl-ca-certfile={options.keys}/public/ca.crt", f"--ssl-certfile={options.keys}/server/server.crt",
        f"--ssl-keyfile={options.keys}/server/server.key", f"--database={options.state}/superlink.db",
        f"--seen={options.state}/{SEEN}",
    ]  # fmt: skip
    return words + ([f"--health-server-address={options.health}"] if options.health else [])


def _proxy(options: ServerOptions) -> list[str]:
    words = [f"--superlink={options.superlink}", f"--listen={options.listen}", f"--keys={options.keys}"]
    words += [f"--folder={options.state}/nginx"]
    words += [f"--runtime={options.runtime}"] if options.runtime else []
    return words + ([f"--health={options.health}"] if options.health else [])


def _app(options: ServerOptions) -> list[str]:
    words = ["--server", f"--runtime-api-address={options.superlink}"]
    words += [f"--root-certificates={options.keys}/public/ca.crt"]
    words += [f"--superexec-auth-secret-file={options.keys}/secret/superexec"]
    return words + ([f"--health-server-address={options.health}"] if options.health else [])


def _monitor(options: ServerOptions) -> list[str]:
    """Return the words of the monitor's command; raise UsageError where it cannot be started."""
    import prometheus_client  # noqa: F401 - where it is missing, one line says what installs it

    for why in _port("--metrics", options.metrics):
        raise UsageError(why)
    words = [f"--listen={options.metrics}", f"--runs={options.runs}", f"--keys={options.keys}"]
    words += [f"--folder=state={options.state}"]
    for name, address in (("superlink", options.superlink), ("proxy", options.listen)):
        host, _, port = address.rpartition(":")
        words.append(f"--up={name}={'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
    words += [f"--tls={options.keys / 'server'}"] if options.metrics_tls else []
    if options.metrics_token is not None:
        if not os.access(options.metrics_token, os.R_OK) or not options.metrics_token.read_text().strip():
            raise UsageError(f"--metrics-token {options.metrics_token}: it cannot be read, or it is empty")
        words.append(f"--token={options.metrics_token}")
    return words


PARTS = {"superlink": _superlink, "proxy": _proxy, "app": _app}
"""Part -> what makes the arguments of its module."""
MODULES = {"superlink": "superlink", "proxy": "proxy", "app": "executor"}
NEEDS = {
    "superlink": ("public/ca.crt", "server/server.crt", "server/server.key", "secret/superexec"),
    "proxy": ("public/ca.crt", "server/server.crt", "server/server.key"),
    "app": ("public/ca.crt", "secret/superexec"),
}
"""Part -> the files that it reads below the folder of keys."""
