"""A client: claims a partition, and keeps two processes alive, Flower's SuperNode and fedlearn's executor.

Each of the two is started again when it dies, while the other one goes on. They talk through a port of this host only,
with a new secret for each start. A byte in a pipe of this process, which both inherit (the bell), signals to the
executor that a message has come, so that it need not ask again and again. `fedlearn.commands.client` is its command.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fedlearn.config.policy import Policy
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import proxies
from fedlearn.engine.deployment.claims import Claim, claim
from fedlearn.engine.deployment.key_passphrase import Passphrase, open_key
from fedlearn.engine.deployment.programs import start_logging
from fedlearn.engine.deployment.services import Service, keep_alive
from fedlearn.engine.processes import free_port
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.ledgers import LedgerFile, names_in
from fedlearn.secure.key_agreement import node_keys_in

SHARED = (
    "no --own-data: this client's rows are a share of the table %s, by the server's seed: all shares pay from one "
    "ledger in this folder, and by each ledger in another folder a record may lose as much again"
)

log = logging.getLogger("client")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What the flags of ``fedlearn client`` say, by their names.

    Parameters
    ----------
    allowed
        Entries of `Policy` that were given by flags; None where one was not.
    """

    superlink: str
    keys: Path
    claims: Path
    root_certificates: Path | None = None
    insecure: bool = False
    partition: int | None = None
    own_data: bool = False
    device: str = ""
    attack: str = ""
    attack_options: str = ""
    memory: Path | None = None
    ledger: Path | None = None
    data_name: str = ""
    policy: Path | None = None
    allowed: Mapping[str, object] = field(default_factory=dict)
    health: str = ""
    ask: Path | None = None
    peers: Path | None = None
    least_peers: int | None = None
    colluding_peers: int | None = None
    json_log: bool = False
    passphrase_file: Path | None = None


def run(options: ClientOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises
    ------
    UsageError
        If there is no key, passphrase, certificate or ledger as the flags say, or the server speaks TLS and the client
        would not.
    """
    start_logging(json_lines=options.json_log)
    proxies.keep_local()
    if through := proxies.remark(options.superlink):
        log.info("%s", through)
    if options.root_certificates and not options.root_certificates.is_file():
        raise UsageError(
            f"--root-certificates {options.root_certificates}: there is no such file; copy public/ca.crt from the "
            "server's keys"
        )
    if options.insecure and _speaks_tls(options.superlink):
        raise UsageError(f"{options.superlink} speaks TLS: give --root-certificates in place of --insecure")
    check_peers(options)
    if options.ask:
        log.info("asks its owner before each run: fedlearn agree %s", options.ask)
    if options.attack:
        log.warning(
            "THIS CLIENT ATTACKS in every update, by --attack %s: only for tests of a deployment", options.attack
        )
    privacy = privacy_config(options)
    ours = claim(options.keys, options.claims, partition_id=options.partition)
    log.info("holds partition %d of %d", ours.partition_id, ours.num_partitions)
    opened = open_key(ours.key, Passphrase(options.passphrase_file))
    with tempfile.TemporaryDirectory() as folder, opened as (key, inherited):
        ours = replace(ours, key=key)
        secret = Path(folder, "secret")
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        keep_alive(_services(options, ours, secret, privacy, inherited), log)


def check_peers(options: ClientOptions) -> None:
    """Raise UsageError, in one line, where the list of peers cannot be read, or is shorter than it must be."""
    if options.peers is None:
        for flag, given in (("--least-peers", options.least_peers), ("--colluding-peers", options.colluding_peers)):
            if given is not None:
                raise UsageError(f"{flag}: give --peers FILE, too: it is a number of the clients of that list")
        return
    try:
        count = len(node_keys_in(options.peers.read_bytes(), colluders=options.colluding_peers or 0))
    except OSError as error:
        raise UsageError(f"--peers {options.peers}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(
            f"--peers {options.peers}: {error} (put a line of public/nodes/N.pub for each client)"
        ) from None
    if count < (options.least_peers or 1):
        raise UsageError(
            f"--peers {options.peers}: it lists {count} clients, --least-peers asks for {options.least_peers}"
        )
    log.info("takes part in secure sums alone, with %d listed clients", count)


def _services(
    options: ClientOptions, ours: Claim, secret: Path, privacy: str, inherited: Sequence[int] = ()
) -> list[Service]:
    port = free_port()
    supernode = [
        "--superlink", options.superlink, "--isolation", "process", "--host", "127.0.0.1", "--port", str(port),
        "--superexec-auth-secret-file", str(secret), "--node-config", node_config(options, ours, privacy),
    ]  # fmt: skip
    if options.insecure:
        supernode += ["--insecure"]
    else:
        supernode += ["--auth-supernode-private-key", str(ours.key)]
    if options.root_certificates:
        supernode += ["--root-certificates", str(options.root_certificates)]
    if options.health:
        supernode += ["--health-server-address", options.health]
    executor = ["--insecure", "--runtime-api-address", f"127.0.0.1:{port}", "--superexec-auth-secret-file", str(secret)]
    executor += ["--only-our-app"] if options.ledger or options.ask else []  # another one would ask neither
    start = partial(Service, json_lines=options.json_log)
    read_end, write_end = os.pipe()  # the bell: open as long as this process, whichever of the two starts anew
    return [
        start("supernode", [*supernode, "--bell", str(write_end)], log, pass_fds=[write_end, *inherited]),
        start("executor", [*executor, "--bell", str(read_end)], log, pass_fds=[read_end, *inherited]),
    ]


def node_config(options: ClientOptions, ours: Claim, privacy: str) -> str:
    """Return the config of the node in Flower's form: its partition, its owner's data and device, `privacy`."""
    settings = [f"partition-id={ours.partition_id}", f"num-partitions={ours.num_partitions}"]
    settings += ["own-data=true"] if options.own_data else []
    settings += [f'memory="{options.memory.resolve()}"'] if options.memory else []
    settings += [f'device="{options.device}"'] if options.device else []
    settings += [f'ask="{options.ask.resolve()}"'] if options.ask else []
    if options.attack:
        quoted = options.attack_options.replace("'", "\\u0027")  # as JSON has it, within a literal text of TOML
        settings += [f'attack="{options.attack}"', f"attack-options='{quoted}'"]
    if options.peers:
        settings += [f'peers="{options.peers.resolve()}"', f'node-key="{ours.key.absolute()}"']
        settings += [f"least-peers={options.least_peers}"] if options.least_peers else []
        settings += [f"colluding-peers={options.colluding_peers}"] if options.colluding_peers else []
    return " ".join([*settings, privacy]).strip()


def privacy_config(options: ClientOptions) -> str:
    """Return the node's ledger and its owner's policy, as a part of Flower's node config.

    Raises
    ------
    UsageError
        If a flag is missing or has an impossible value.
    """
    if options.ledger is None:
        named = [name for name, value in options.allowed.items() if value is not None]
        if named := [*named, *["policy"] * bool(options.policy)]:
            flag = named[0].replace("_", "-")
            raise UsageError(f"--{flag}: what a client allows binds it by its ledger: say --ledger FOLDER")
        if options.own_data:
            log.warning("no --ledger: private models are refused, as no ledger would count what they spend")
        return ""
    policy = Policy.of_file(options.policy, **options.allowed)
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
