"""``fedlearn keys``: certificates, node keys and secrets of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keys(
    clients: Annotated[int, typer.Option(min=0, metavar="N", help="Number of clients; more than before adds keys.")],
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the keys, existing or new.")] = Path("keys"),
    host: Annotated[
        str, typer.Option(metavar="NAME,...", help="Names and addresses by which clients reach the server.")
    ] = "",
    owner: Annotated[str, typer.Option(metavar="UID:GID", help="Owner of all these files; needs root.")] = "",
    rotate: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Replace this client's key; the old key signs the new one; may be repeated."),
    ] = None,
    release: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="This client has left for good: sign that its exact sums may be revealed; may be repeated.",
        ),
    ] = None,
    give: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="Another folder to create for the owner; may be repeated."),
    ] = None,
) -> None:
    """Make missing keys of a server and its clients; existing keys are replaced only on request.

    The server's certificate is replaced within 30 days of its end, or for other names. The folder then holds public/
    (ca.crt, and the public keys of clients), server/ and secret/ (of the server), nodes/N (the private key of client
    N: give each client its own), and authority/ (which signs certificates: keep it off the server).
    """
    from fedlearn.engine.deployment.deployment_keys import (
        give_to,
        make_keys,
        release_sums,
        rotate_node_key,
        valid_until,
    )

    make_keys(folder, clients=clients, hosts=[name for name in host.split(",") if name])
    for partition_id in rotate or []:
        rotate_node_key(folder, partition_id)
    for partition_id in release or []:
        release_sums(folder, partition_id)
    given = give or []
    for each in given:
        each.mkdir(parents=True, exist_ok=True)
    if owner:
        give_to(owner, [*folder.iterdir(), *given])  # each is a volume, in a container
    typer.echo(f"keys of {clients} clients are in {folder}")
    typer.echo(f"the server's certificate is valid until {valid_until(folder):%Y-%m-%d}")
