"""``fedlearn client``: one node of a federation, on the machine that has the data."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from fedlearn.commands.shared import check_address
from fedlearn.config.tables.running_settings import DEVICE
from fedlearn.core.errors import UsageError

SERVER, NODE, OWNER = "Where the server is", "This client", "What its owner allows (with --ledger)"
VARIABLE = "FEDLEARN_"  # and the flag in capitals: so the variables of docker-compose.yml are called


class Option(NamedTuple):
    """One option of the command, as its help shows it; a truth value has no metavar.

    Parameters
    ----------
    has_variable
        Whether a variable of the environment gives it, too.
    """

    kind: Any
    default: Any
    metavar: str
    help: str
    panel: str = NODE
    has_variable: bool = True
    least: int | None = None

    def as_parameter(self, name: str) -> inspect.Parameter:
        """Return the parameter that typer reads."""
        flags = [] if self.metavar else [f"--{name.replace('_', '-')}"]  # typer would make a --no- of it, too
        variable = f"{VARIABLE}{name.upper()}" if self.has_variable else None
        option = typer.Option(
            *flags, metavar=self.metavar or None, help=self.help, rich_help_panel=self.panel, envvar=variable,
            show_default=not (self.default == "" and self.has_variable), min=self.least,
        )  # fmt: skip
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, keyword, default=self.default, annotation=Annotated[self.kind, option])


NEEDED = inspect.Parameter.empty
OPTIONS = {
    "superlink": Option(str, NEEDED, "HOST:PORT", "The server's address for clients.", SERVER, False),
    "root_certificates": Option(
        Path | None, None, "FILE", "The server's public/ca.crt, to verify the server.", SERVER, False,
    ),
    "insecure": Option(
        bool, False, "", "Without TLS and key; only for trials on one machine.", SERVER, False,
    ),
    "keys": Option(
        Path, Path("keys"), "FOLDER", "Folder with this client's private key, a file named by its number.", NODE, False,
    ),
    "passphrase_file": Option(
        Path | None, None, "FILE", "File with the key's passphrase (else FEDLEARN_PASSPHRASE, or the terminal).", NODE,
        False,
    ),
    "claims": Option(
        Path, Path("claims"), "FOLDER", "Folder shared by the clients of this machine, each with another key.", NODE,
        False,
    ),
    "memory": Option(
        Path | None, None, "FOLDER", "Folder for the client's memory from round to round, over restarts.", NODE, False,
    ),
    "partition": Option(int | None, None, "N", "Number of the key (default: first free one)."),
    "own_data": Option(
        bool, False, "", "FEDLEARN_DATA has this client's own data: train on all of them, not on a share.",
    ),
    "device": Option(str, "", "NAME", "Device for training: cpu (default), cuda, cuda:1, mps, or auto."),
    "health": Option(str, "", "HOST:PORT", "Serve gRPC health checks there.", NODE, False),
    "json_log": Option(bool, False, "", "Log JSON objects, one a line.", NODE, False),
    "attack": Option(
        str, "", "NAME", "For tests of a deployment: attack in every update, by sign-flip or module:Class.",
    ),
    "attack_options": Option(str, "", "JSON", 'Options of --attack, such as {"scale": 2}.'),
    "ask": Option(
        Path | None, None, "FOLDER", "Ask the owner before each run: pages and answers are there (fedlearn agree).",
    ),
    "peers": Option(
        Path | None, None, "FILE", "Public keys, a line each: secure aggregation only with these clients.",
    ),
    "least_peers": Option(int | None, None, "N", "Minimum participants, including this client (default 3).", least=3),
    "colluding_peers": Option(
        int | None, None, "N", "Colluding peers a secure sum must tolerate (default 0).", least=0,
    ),
    "ledger": Option(
        Path | None, None, "FOLDER",
        "Folder for the ledger of spent privacy budget, over all runs and servers.", OWNER,
    ),
    "data_name": Option(
        str, "", "NAME", "Name of the data in the ledger (default: the folder FEDLEARN_DATA). Never change it.",
        OWNER,
    ),
    "policy": Option(
        Path | None, None, "FILE", "TOML file with the limits below, such as largest_epsilon = 3; flags win over it.",
        OWNER,
    ),
}  # fmt: skip
LIMITS = {
    "largest_epsilon": Option(float | None, None, "X", "Largest epsilon over all runs and servers.", OWNER),
    "delta": Option(
        float | None, None, "X", "Largest delta, such as 1e-6 (default 0: no Gaussian noise).", OWNER,
    ),
    "epsilon_of_a_run": Option(
        float | None, None, "X", "Largest epsilon of one run (default: that of all). Another seed is another run.",
        OWNER,
    ),
    "least_records": Option(int | None, None, "N", "With fewer records the client is never ready.", OWNER),
    "most_questions": Option(int | None, None, "N", "Maximum number of answers in all (default 10000).", OWNER),
    "bins": Option(
        int | None, None, "N", "Bins of a column in exact statistics (default 20); no server can change them.", OWNER,
    ),
    "groups": Option(
        str | None, None, "COLUMN,...",
        "Columns for by and strata of exact statistics (default: all that are declared).", OWNER,
    ),
    "models": Option(str | None, None, "NAME,...", "Allowed models (default: fedlearn's private ones).", OWNER),
    "agreed": Option(
        str | None, None, "NAME,...", "With --ask: models whose runs need no answer (default: none).", OWNER,
    ),
    "code": Option(
        str | None, None, "SHA256,...", "The only other code that may run (with --ask, default: none).", OWNER,
    ),
    "declared": Option(
        str | None, None, "FILE",
        "With --own-data: the .toml file that declares the table; no server can change it.", OWNER,
    ),
    "hours": Option(
        str | None, None, "HH:MM-HH:MM",
        "Working hours by the client's clock, such as 20:00-06:00 (default: always).", OWNER,
    ),
    "seeded_noise": Option(bool | None, None, "", "Accept seeded noise, which gives no privacy.", OWNER),
    "public_sizes": Option(
        bool | None, None, "", "Allow publishing the number of records; each epsilon then counts double.", OWNER,
    ),
}  # fmt: skip
"""What the owner allows, by the names of a policy's entries."""


def client(*, device: str, attack: str, attack_options: str, **options: Any) -> None:
    """Run one node: connect to a server, train on the data of this machine when it asks, until stopped.

    The client opens no port; it only connects to the server's port. It ends with an error if key, certificate or
    ledger are invalid. Guide: docs/howto/deployment.md.
    """
    from fedlearn.engine.deployment.client_processes import ClientOptions, run

    if device and not DEVICE.fullmatch(device):
        raise UsageError(f"--device {device}: write cpu, cuda, cuda:1 and so on, mps or auto")
    check_address("--superlink", options["superlink"])
    check_address("--health", options["health"])
    check_attack(attack, attack_options, has_ledger=options["ledger"] is not None)
    limits = {name: options.pop(name) for name in LIMITS}
    allowed = {name: None if value is False else value for name, value in limits.items()}
    run(ClientOptions(**options, device=device, attack=attack, attack_options=attack_options, allowed=allowed))


client.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [option.as_parameter(name) for name, option in {**OPTIONS, **LIMITS}.items()]
)


def check_attack(name: str, options: str, *, has_ledger: bool) -> None:
    """Raise UsageError for an attack that a node cannot carry out; a node with a ledger never lies for a test."""
    if not name:
        if options:
            raise UsageError("--attack-options: give --attack NAME, too: they are its own")
        return
    from fedlearn.attacks import load_attack

    if load_attack(name, options).sees_all:
        raise UsageError(f"--attack {name}: it needs the honest updates of all clients: use it in a simulation")
    if has_ledger:
        raise UsageError("--attack: a client that attacks for a test must not spend budget: leave --ledger out")
