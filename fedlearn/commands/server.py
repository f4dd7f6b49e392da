"""``fedlearn server``: what nodes connect to, and where runs are submitted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.commands.shared import check_address
from fedlearn.core.errors import UsageError


class Part(StrEnum):
    """What is started."""

    ALL = "all"
    SUPERLINK = "superlink"
    PROXY = "proxy"
    APP = "app"


def server(
    part: Annotated[
        Part, typer.Argument(help="One part alone, as docker-compose.yml starts each in a container of its own.")
    ] = Part.ALL,
    keys: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Certificates and secrets, as fedlearn keys makes them.")
    ] = Path("keys"),
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the data base of messages; it survives a restart.")
    ] = Path("state"),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where nodes connect: the one port that is open to others.")
    ] = "0.0.0.0:8443",
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where runs are submitted. Who reaches it can start runs: keep "
                          "it on this machine.")
    ] = "127.0.0.1:8000",
    runtime: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Of the proxy alone: where an app in another container connects.")
    ] = "",
    health: Annotated[str, typer.Option(metavar="HOST:PORT", help="Of one part: serve health checks there.")] = "",
) -> None:  # fmt: skip
    """Run a server, until stopped: nodes connect to it (fedlearn client), runs are submitted to it (fedlearn submit).

    Needs nginx. Ends with one line if a key is missing, a certificate is over, or a port is taken. Guide:
    docs/howto/deployment.md.
    """
    from fedlearn.engine.deployment.server import ServerOptions, become, run

    addresses = {"listen": listen, "superlink": superlink, "runtime": runtime, "health": health}
    for name, address in addresses.items():
        check_address(f"--{name}", address)
    if part is Part.ALL and (runtime or health):
        raise UsageError("--runtime and --health are of one part: name it, as fedlearn server proxy")
    options = ServerOptions(keys=keys, state=state, **addresses)
    if part is Part.ALL:
        run(options)
    else:
        become(part.value, options)
