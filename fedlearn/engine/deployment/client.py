"""A client: takes a partition, and keeps its two processes alive, Flower's SuperNode and our executor.

    python -m fedlearn.engine.deployment.client --superlink server:8443 --root-certificates ca.crt --keys nodes

Each of the two is started again when it dies, while the other one goes on. They talk through a port of this host only,
with a secret that is made anew each time. A byte in a pipe of this process, which both inherit, tells the executor that
a message has come: it need not ask again and again.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from fedlearn.config.policy import Policy
from fedlearn.config.tables.running import DEVICE
from fedlearn.engine.deployment.claims import Claim, claim
from fedlearn.engine.deployment.programs import start_logging
from fedlearn.engine.processes import free_port
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.ledgers import LedgerFile, names_in
from fedlearn.words.errors import FedlearnError, UsageError

PAUSES = (2.0, 3.0, 5.0, 10.0)  # seconds before a process that has died again and again is started once more
LONG = 60.0  # seconds after which a process that dies is no longer one that dies again and again
LOOK = 0.2  # seconds between looks at the two
PATIENCE = 10.0  # seconds that they have to end when told to
OWNER = {"own-data": True, "device": False, "ledger": False, "data-name": False, "policy": False} | {
    name.replace("_", "-"): field.annotation is bool for name, field in Policy.model_fields.items()
}
"""Flags by which a node's owner says what its data are and may be used for -> whether one stands alone."""
SWITCHES = {"": False, "false": False, "0": False, "true": True, "1": True}

SHARED = (
    "no --own-data: this node's rows are a share of the table %s, by the server's seed: all shares pay from one "
    "ledger in this folder, and by each ledger in another folder a record may lose as much again"
)

log = logging.getLogger("client")


class Service:
    """A process that is to run for ever."""

    def __init__(self, name: str, command: list[str], bell: int) -> None:
        self.name = name
        self._bell = bell  # its end of the pipe
        self._command = [sys.executable, "-m", f"fedlearn.engine.deployment.{name}", *command]
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self._deaths = 0

    def look_after(self) -> None:
        """Start it if it does not run; a while after its death, if it has died."""
        if self._process is not None and self._process.poll() is not None:
            if time.monotonic() - self._start_at > LONG:
                self._deaths = 0
            pause = PAUSES[min(self._deaths, len(PAUSES) - 1)]
            self._deaths += 1
            code = self._process.returncode
            log.warning("%s ended (exit code %d): starting it again in %g s", self.name, code, pause)
            self._process, self._start_at = None, time.monotonic() + pause
        if self._process is None and time.monotonic() >= self._start_at:
            words = ["--parent-pid", str(os.getpid()), "--bell", str(self._bell)]
            self._process = subprocess.Popen([*self._command, *words], pass_fds=[self._bell])

    def stop(self) -> None:
        """Tell it to end."""
        if self._process is not None:
            self._process.terminate()

    def wait(self, *, until: float) -> None:
        """Wait for its end, and force it at a time."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout=max(until - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(arguments: list[str] | None = None) -> None:
    """Run until SIGTERM or SIGINT."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    start_logging()
    signal.signal(signal.SIGTERM, _stop)
    if options.insecure and _speaks_tls(options.superlink):
        sys.exit(f"error: {options.superlink} speaks TLS: give --root-certificates in place of --insecure")
    try:
        privacy = _privacy_config(options)
        ours = claim(options.keys, options.claims, partition_id=options.partition)
    except FedlearnError as error:
        sys.exit(f"error: {error}")
    log.info("holds partition %d of %d", ours.partition_id, ours.num_partitions)
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        _keep_alive(_services(options, ours, secret, privacy))


def _keep_alive(services: list[Service]) -> None:
    try:
        while True:
            for service in services:
                service.look_after()
            time.sleep(LOOK)
    except KeyboardInterrupt:
        log.info("ends")
    finally:
        for service in services:
            service.stop()
        end = time.monotonic() + PATIENCE
        for service in services:
            service.wait(until=end)


def _services(options: argparse.Namespace, ours: Claim, secret: Path, privacy: str) -> list[Service]:
    port = free_port()
    supernode = [
        "--superlink", options.superlink, "--isolation", "process", "--host", "127.0.0.1", "--port", str(port),
        "--superexec-auth-secret-file", str(secret), "--node-config", _node_config(options, ours, privacy),
    ]  # fmt: skip
    if options.insecure:
        supernode += ["--insecure"]
    else:
        supernode += ["--auth-supernode-private-key", str(ours.key)]
    if options.root_certificates:
        supernode += ["--root-certificates", str(options.root_certificates)]
    if options.health_server_address:
        supernode += ["--health-server-address", options.health_server_address]
    executor = ["--insecure", "--runtime-api-address", f"127.0.0.1:{port}", "--superexec-auth-secret-file", str(secret)]
    executor += ["--only-our-app"] if options.ledger else []  # another one would not ask the ledger
    heard, rung = os.pipe()  # open as long as this process is, whichever of the two starts anew
    return [Service("supernode", supernode, rung), Service("executor", executor, heard)]


def _node_config(options: argparse.Namespace, ours: Claim, privacy: str) -> str:
    settings = [f"partition-id={ours.partition_id}", f"num-partitions={ours.num_partitions}"]
    settings += ["own-data=true"] if options.own_data else []
    settings += [f'memory="{options.memory.resolve()}"'] if options.memory else []
    settings += [f'device="{options.device}"'] if options.device else []
    return " ".join([*settings, privacy]).strip()


def _privacy_config(options: argparse.Namespace) -> str:
    """Return where the node's ledger lies and what its owner allows, as a part of Flower's node config.

    Raises
    ------
    UsageError
        If something is missing or cannot be meant.
    """
    given = {name: getattr(options, name) for name in Policy.model_fields}
    if options.ledger is None:
        named = [name for name, value in given.items() if value is not None] + ["policy"] * bool(options.policy)
        if named:
            flag = named[0].replace("_", "-")
            raise UsageError(f"--{flag}: what a node allows binds it by its ledger: say --ledger FOLDER")
        if options.own_data:
            log.warning("no --ledger: private models are refused, as nothing would count what they spend")
        return ""
    policy = Policy.of_file(options.policy, **given)
    name = options.data_name or Path(os.environ.get("FEDLEARN_DATA") or ".").resolve().name
    file = LedgerFile(options.ledger, name)
    file.check_disk()
    ledger = Ledger(file)
    if options.own_data:
        try:
            log.info("%s has spent %s of %g", name, ledger.spent(), policy.largest_epsilon)
        except LedgerDamaged as error:
            raise UsageError(f"{options.ledger}: the ledger of {name}: {error}: put a copy back") from None
    else:
        log.warning(SHARED, name)
        if old := [each for each in names_in(options.ledger) if re.fullmatch(rf"{re.escape(name)}-\d+", each)]:
            log.warning("%s counts no more: lower --largest-epsilon by what it holds", ", ".join(old))
    entries = {"ledger": str(options.ledger.resolve()), "data-name": name, **policy.as_node_config()}
    return " ".join(f"{key}={json.dumps(value)}" for key, value in entries.items())


def _speaks_tls(address: str) -> bool:
    """Return whether a server answers in TLS; Flower's SuperNode, told to speak plainly, would not say why it fails."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is said to it
    try:
        with socket.create_connection((host, int(port)), timeout=5) as plain, context.wrap_socket(plain):
            return True
    except OSError:  # not there yet, or it speaks plainly
        return False


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fedlearn.engine.deployment.client", description=__doc__)
    named = os.environ.get("FEDLEARN_PARTITION", "")
    parser.add_argument("--superlink", required=True, metavar="HOST:PORT", help="The server's address for nodes.")
    parser.add_argument("--insecure", action="store_true", help="Without TLS and without a node key; for trials.")
    parser.add_argument("--root-certificates", type=Path, metavar="FILE", help="Certificate authority, PEM.")
    parser.add_argument("--keys", type=Path, required=True, metavar="FOLDER", help="Node keys, named by partition.")
    parser.add_argument("--claims", type=Path, required=True, metavar="FOLDER", help="Shared by this host's clients.")
    parser.add_argument("--partition", type=int, default=int(named) if named else None, metavar="N",
                        help="Take this one; else FEDLEARN_PARTITION, else the first that is free.")  # fmt: skip
    parser.add_argument("--own-data", action="store_true",
                        help="FEDLEARN_DATA holds this node's own data: use all, not one of many shares.")  # fmt: skip
    parser.add_argument("--device", type=_device, metavar="NAME",
                        help="Where it trains: cpu, which is the default, cuda, cuda:1, mps, or auto.")  # fmt: skip
    parser.add_argument("--memory", type=Path, metavar="FOLDER",
                        help="Where what a node keeps, as privacy spent, outlasts client and server.")  # fmt: skip
    parser.add_argument("--ledger", type=Path, metavar="FOLDER",
                        help="Where it stands what the data have paid for, over all runs and servers.")  # fmt: skip
    parser.add_argument("--data-name", metavar="NAME",
                        help="What the data are called there; else as the folder in FEDLEARN_DATA.")  # fmt: skip
    parser.add_argument("--policy", type=Path, metavar="FILE",
                        help="TOML file of what the owner allows, by the names of the flags below.")  # fmt: skip
    parser.add_argument("--largest-epsilon", type=float, metavar="X", help="In all, over all runs and servers.")
    parser.add_argument(
        "--epsilon-of-a-run",
        type=float,
        metavar="X",
        help="Of one run; else as much as in all. Another seed is another run.",
    )
    parser.add_argument("--least-records", type=int, metavar="N", help="With fewer, which this says, it takes no part.")
    parser.add_argument("--most-questions", type=int, metavar="N", help="That are answered in all; else 10000.")
    parser.add_argument("--models", metavar="NAME,...", help="That may be trained; else fedlearn's private ones.")
    parser.add_argument("--seeded-noise", action="store_true", default=None, help="Noise may protect nobody.")
    parser.add_argument("--public-sizes", action="store_true", default=None,
                        help="The number of records may be published; each epsilon then counts double.")  # fmt: skip
    parser.add_argument("--health-server-address", metavar="HOST:PORT", help="Of the gRPC health service.")
    return parser.parse_args([*_said_by_owner(os.environ), *arguments])


def _device(text: str) -> str:
    if not DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu, cuda, cuda:1 and so on, mps or auto")
    return text


def _said_by_owner(environment: Mapping[str, str]) -> list[str]:
    """Return the owner's flags that stand in the environment, as FEDLEARN_LARGEST_EPSILON; an empty one says nothing.

    Flags that follow win.
    """
    flags = []
    for name, stands_alone in OWNER.items():
        variable = "FEDLEARN_" + name.upper().replace("-", "_")
        value = environment.get(variable, "")
        if stands_alone and value not in SWITCHES:
            sys.exit(f"error: {variable} = {value!r}: it is true or false")
        if stands_alone:
            flags += [f"--{name}"] * SWITCHES[value]
        elif value:
            flags.append(f"--{name}={value}")
    return flags


if __name__ == "__main__":
    main()
