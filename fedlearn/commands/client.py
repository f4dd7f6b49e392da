"""``fedlearn client``: one node of a federation, on the machine that has the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedlearn.commands.shared import check_address
from fedlearn.core.errors import UsageError

SERVER, NODE, OWNER = "Where the server is", "This node", "What its owner allows (with --ledger)"
VARIABLE = "FEDLEARN_"  # and the flag in capitals: so the variables of docker-compose.yml are called


def client(
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The server's address for nodes.", rich_help_panel=SERVER)
    ],
    root_certificates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The server's public/ca.crt: who the server must be.",
                     rich_help_panel=SERVER),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Without TLS and without a node key; for trials on one machine.",
                     rich_help_panel=SERVER),
    ] = False,
    keys: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder with this node's private key, a file named by its number.",
                     rich_help_panel=NODE),
    ] = Path("keys"),
    claims: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder shared by the clients of this machine: each takes another key.",
                     rich_help_panel=NODE),
    ] = Path("claims"),
    memory: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for what the node keeps from round to round, over restarts.",
                     rich_help_panel=NODE),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(metavar="N", envvar=f"{VARIABLE}PARTITION", help="Number of the key; else the first free one.",
                     rich_help_panel=NODE),
    ] = None,
    own_data: Annotated[
        bool,
        typer.Option("--own-data", envvar=f"{VARIABLE}OWN_DATA", rich_help_panel=NODE,
                     help="The folder FEDLEARN_DATA has this node's own data: use all, not one of many shares."),
    ] = False,
    device: Annotated[
        str,
        typer.Option(metavar="NAME", envvar=f"{VARIABLE}DEVICE", rich_help_panel=NODE, show_default=False,
                     help="Where it trains: cpu, which is the default, cuda, cuda:1, mps, or auto."),
    ] = "",
    health: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve gRPC health checks there.", rich_help_panel=NODE)
    ] = "",
    attack: Annotated[
        str,
        typer.Option(metavar="NAME", envvar=f"{VARIABLE}ATTACK", rich_help_panel=NODE, show_default=False,
                     help="For tests of a deployment: lie in every report, as sign-flip or module:Class."),
    ] = "",
    attack_options: Annotated[
        str,
        typer.Option(metavar="JSON", envvar=f"{VARIABLE}ATTACK_OPTIONS", rich_help_panel=NODE, show_default=False,
                     help='Options of --attack, as {"scale": 2}.'),
    ] = "",
    peers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar=f"{VARIABLE}PEERS", rich_help_panel=NODE,
                     help="Public keys, a line each: it takes part in secure sums with these nodes alone."),
    ] = None,
    least_peers: Annotated[
        int | None,
        typer.Option(metavar="N", min=3, envvar=f"{VARIABLE}LEAST_PEERS", rich_help_panel=NODE,
                     help="Minimum participants, including this client (default 3)."),
    ] = None,
    colluding_peers: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, envvar=f"{VARIABLE}COLLUDING_PEERS", rich_help_panel=NODE,
                     help="Colluding peers a secure sum must tolerate (default 0)."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", envvar=f"{VARIABLE}LEDGER", rich_help_panel=OWNER,
                     help="Folder for the account of what the data have paid for, over all runs and servers."),
    ] = None,
    data_name: Annotated[
        str,
        typer.Option(metavar="NAME", envvar=f"{VARIABLE}DATA_NAME", rich_help_panel=OWNER, show_default=False,
                     help="Name of the data in the ledger; else that of the folder FEDLEARN_DATA. Never change it."),
    ] = "",
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar=f"{VARIABLE}POLICY", rich_help_panel=OWNER,
                     help="TOML file with the limits below, as largest_epsilon = 3; flags win over it."),
    ] = None,
    largest_epsilon: Annotated[
        float | None,
        typer.Option(metavar="X", envvar=f"{VARIABLE}LARGEST_EPSILON", rich_help_panel=OWNER,
                     help="Largest epsilon over all runs and servers."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="X", envvar=f"{VARIABLE}DELTA", rich_help_panel=OWNER,
                     help="Probability at which it need not hold, as 1e-6; else 0: no Gaussian noise."),
    ] = None,
    epsilon_of_a_run: Annotated[
        float | None,
        typer.Option(metavar="X", envvar=f"{VARIABLE}EPSILON_OF_A_RUN", rich_help_panel=OWNER,
                     help="Largest epsilon of one run; else that of all. Another seed is another run."),
    ] = None,
    least_records: Annotated[
        int | None,
        typer.Option(metavar="N", envvar=f"{VARIABLE}LEAST_RECORDS", rich_help_panel=OWNER,
                     help="With fewer records the node is never ready."),
    ] = None,
    most_questions: Annotated[
        int | None,
        typer.Option(metavar="N", envvar=f"{VARIABLE}MOST_QUESTIONS", rich_help_panel=OWNER,
                     help="Questions that are answered in all; else 10000."),
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(metavar="N", envvar=f"{VARIABLE}BINS", rich_help_panel=OWNER,
                     help="Bins of a column in exact statistics; else 20. No server chooses others."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", envvar=f"{VARIABLE}GROUPS", rich_help_panel=OWNER,
                     help="Columns by which exact statistics may be grouped; else all that are declared."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", envvar=f"{VARIABLE}MODELS", rich_help_panel=OWNER,
                     help="Models that may be trained; else fedlearn's private ones."),
    ] = None,
    declared: Annotated[
        str | None,
        typer.Option(metavar="FILE", envvar=f"{VARIABLE}DECLARED", rich_help_panel=OWNER,
                     help="With --own-data: the .toml file that declares the table; no server names another one."),
    ] = None,
    hours: Annotated[
        str | None,
        typer.Option(metavar="HH:MM-HH:MM", envvar=f"{VARIABLE}HOURS", rich_help_panel=OWNER,
                     help="Hours of the day in which the node works, by its own clock, as 20:00-06:00; else always."),
    ] = None,
    seeded_noise: Annotated[
        bool | None,
        typer.Option("--seeded-noise", envvar=f"{VARIABLE}SEEDED_NOISE", rich_help_panel=OWNER,
                     help="Accept seeded noise, which gives no privacy."),
    ] = None,
    public_sizes: Annotated[
        bool | None,
        typer.Option("--public-sizes", envvar=f"{VARIABLE}PUBLIC_SIZES", rich_help_panel=OWNER,
                     help="The number of records may be published; each epsilon then counts double."),
    ] = None,
) -> None:  # fmt: skip
    """Run one node: connect to a server, train on the data of this machine when it asks, until stopped.

    The node opens no port; it connects to the server's port alone. Ends with one line if key, certificate or ledger are
    not as they must be. Guide: docs/howto/deployment.md.
    """
    from fedlearn.config.tables.running import DEVICE
    from fedlearn.engine.deployment.client import ClientOptions, run

    if device and not DEVICE.fullmatch(device):
        raise UsageError(f"--device {device}: write cpu, cuda, cuda:1 and so on, mps or auto")
    check_address("--superlink", superlink)
    check_address("--health", health)
    check_attack(attack, attack_options, has_ledger=ledger is not None)
    allowed = {
        "largest_epsilon": largest_epsilon, "delta": delta, "epsilon_of_a_run": epsilon_of_a_run,
        "least_records": least_records, "bins": bins, "groups": groups,
        "most_questions": most_questions, "models": models, "hours": hours, "seeded_noise": seeded_noise or None,
        "public_sizes": public_sizes or None, "declared": declared,
    }  # fmt: skip
    run(
        ClientOptions(
            superlink=superlink,
            keys=keys,
            claims=claims,
            peers=peers,
            least_peers=least_peers,
            colluding_peers=colluding_peers,
            root_certificates=root_certificates,
            insecure=insecure,
            partition=partition,
            own_data=own_data,
            device=device,
            attack=attack,
            attack_options=attack_options,
            memory=memory,
            ledger=ledger,
            data_name=data_name,
            policy=policy,
            allowed=allowed,
            health=health,
        )
    )


def check_attack(name: str, options: str, *, has_ledger: bool) -> None:
    """Raise UsageError for an attack that a node cannot carry out; a node with a ledger never lies for a test."""
    if not name:
        if options:
            raise UsageError("--attack-options: give --attack NAME, too: they are its own")
        return
    from fedlearn.attacks import load_attack

    if load_attack(name, options).sees_all:
        raise UsageError(f"--attack {name}: it needs the honest reports of all nodes: use it in a simulation")
    if has_ledger:
        raise UsageError("--attack: a node that lies for a test spends nothing: leave --ledger out")
