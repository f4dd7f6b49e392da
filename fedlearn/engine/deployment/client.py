"""A client: claims a partition, and keeps two processes alive, Flower's SuperNode and fedlearn's executor.

    python -m fedlearn.engine.deployment.client --superlink server:8443 --root-certificates ca.crt --keys nodes

Each of the two is started again when it dies, while the other one goes on. They talk through a port of this host only,
with a new secret for each start. A byte in a pipe of this process, which both inherit (the bell), signals to the
executor that a message has come, so that it need not ask again and again.
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
LONG = 60.0  # seconds of life after which a death is no longer counted with the deaths before
LOOK = 0.2  # seconds between looks at the two processes
PATIENCE = 10.0  # seconds that the two processes have to end after SIGTERM
OWNER = {"own-data": True, "device": False, "ledger": False, "data-name": False, "policy": False} | {
    name.replace("_", "-"): field.annotation is bool for name, field in Policy.model_fields.items()
}
"""Flags by which a node's owner describes the data and their use -> whether the flag takes no value."""
SWITCHES = {"": False, "false": False, "0": False, "true": True, "1": True}

SHARED = (
    "no --own-data: this node's rows are a share of the table %s, by the server's seed: all shares pay from one "
    "ledger in this folder, and by each ledger in another folder a record may lose as much again"
)

log = logging.getLogger("client")


class Service:
    """A process that is started again whenever it ends."""

    def __init__(self, name: str, command: list[str], bell: int) -> None:
        self.name = name
        self._bell = bell  # the process's end of the pipe
        self._command = [sys.executable, "-m", f"fedlearn.engine.deployment.{name}", *command]
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self._deaths = 0

    def look_after(self) -> None:
        """Start the process if it does not run; after a death, only when a pause is over."""
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
        """Send SIGTERM to the process."""
        if self._process is not None:
            self._process.terminate()

    def wait(self, *, until: float) -> None:
        """Wait for the end of the process, and kill it at the time `until`."""
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
    read_end, write_end = os.pipe()  # the bell: open as long as this process, whichever of the two starts anew
    return [Service("supernode", supernode, write_end), Service("executor", executor, read_end)]


def _node_config(options: argparse.Namespace, ours: Claim, privacy: str) -> str:
    settings = [f"partition-id={ours.partition_id}", f"num-partitions={ours.num_partitions}"]
    settings += ["own-data=true"] if options.own_data else []
    settings += [f'memory="{options.memory.resolve()}"'] if options.memory else []
    settings += [f'device="{options.device}"'] if options.device else []
    return " ".join([*settings, privacy]).strip()


def _privacy_config(options: argparse.Namespace) -> str:
    """Return the node's ledger and its owner's policy, as a part of Flower's node config.

    Raises
    ------
    UsageError
        If a flag is missing or has an impossible value.
    """
    given = {name: getattr(options, name) for name in Policy.model_fields}
    if options.ledger is None:
        named = [name for name, value in given.items() if value is not None] + ["policy"] * bool(options.policy)
        if named:
            flag = named[0].replace("_", "-")
            raise UsageError(f"--{flag}: what a node allows binds it by its ledger: say --ledger FOLDER")
        if options.own_data:
            log.warning("no --ledger: private models are refused, as no ledger would count what they spend")
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
    """Return whether a server answers in TLS; a SuperNode with --insecure would fail there without a reason."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # no data are sent
    try:
        with socket.create_connection((host, int(port)), timeout=5) as plain, context.wrap_socket(plain):
            return True
    except OSError:  # the server is not there yet, or uses no TLS
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
                        help="Partition to claim; else FEDLEARN_PARTITION, else the first that is free.")  # fmt: skip
    parser.add_argument("--own-data", action="store_true",
                        help="FEDLEARN_DATA holds this node's own data: use all, not one of many shares.")  # fmt: skip
    parser.add_argument("--device", type=_device, metavar="NAME",
                        help="Where it trains: cpu, which is the default, cuda, cuda:1, mps, or auto.")  # fmt: skip
    parser.add_argument("--memory", type=Path, metavar="FOLDER",
                        help="Folder for the node's memory, which outlasts client and server.")  # fmt: skip
    parser.add_argument("--ledger", type=Path, metavar="FOLDER",
                        help="Folder for the ledger of the data, over all runs and servers.")  # fmt: skip
    parser.add_argument("--data-name", metavar="NAME",
                        help="Name of the data in the ledger; else that of the folder in FEDLEARN_DATA.")  # fmt: skip
    parser.add_argument("--policy", type=Path, metavar="FILE",
                        help="TOML file with the owner's limits, by the names of the flags below.")  # fmt: skip
    parser.add_argument("--largest-epsilon", type=float, metavar="X", help="Largest epsilon over all runs and servers.")
    parser.add_argument(
        "--epsilon-of-a-run",
        type=float,
        metavar="X",
        help="Largest epsilon of one run; else that of all runs. Another seed is another run.",
    )
    parser.add_argument(
        "--least-records",
        type=int,
        metavar="N",
        help="With fewer, it takes no part, which is public.",
    )
    parser.add_argument(
        "--most-questions", type=int, metavar="N", help="Questions that are answered in all; else 10000."
    )
    parser.add_argument(
        "--models", metavar="NAME,...", help="Models that may be trained; else fedlearn's private ones."
    )
    parser.add_argument(
        "--seeded-noise", action="store_true", default=None, help="Allow noise that protects no record."
    )
    parser.add_argument("--public-sizes", action="store_true", default=None,
                        help="The number of records may be published; each epsilon then counts double.")  # fmt: skip
    parser.add_argument("--health-server-address", metavar="HOST:PORT", help="Address of the gRPC health service.")
    return parser.parse_args([*_said_by_owner(os.environ), *arguments])


def _device(text: str) -> str:
    if not DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write cpu, cuda, cuda:1 and so on, mps or auto")
    return text


def _said_by_owner(environment: Mapping[str, str]) -> list[str]:
    """Return the owner's flags from the environment, as FEDLEARN_LARGEST_EPSILON; an empty variable counts as unset.

    Flags on the command line override them.
    """
    flags = []
    for name, stands_alone in OWNER.items():
        variable = "FEDLEARN_" + name.upper().replace("-", "_")
        value = environment.get(variable, "")
        if stands_alone and value not in SWITCHES:
            sys.exit(f"error: {variable} = {value!r}: write true or false")
        if stands_alone:
            flags += [f"--{name}"] * SWITCHES[value]
        elif value:
            flags.append(f"--{name}={value}")
    return flags


if __name__ == "__main__":
    main()
