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
        Part, typer.Argument(help="Run only one part, as docker-compose.yml does in each container.")
    ] = Part.ALL,
    keys: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Certificates and secrets of fedlearn keys.")
    ] = Path("keys"),
    state: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the database of messages; it survives a restart.")
    ] = Path("state"),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address for clients: the only open port.")
    ] = "0.0.0.0:8443",
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address for runs. Anyone who reaches it can start runs: keep it "
                          "on this machine.")
    ] = "127.0.0.1:8000",
    runtime: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Only for the proxy: address for an app in another container.")
    ] = "",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Serve a page of the status, numbers for Prometheus, /healthz and /readyz."
        ),
    ] = "",
    metrics_token: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that readers of --metrics must send.")
    ] = None,
    metrics_tls: Annotated[
        bool, typer.Option("--metrics-tls", help="Serve --metrics by TLS, with the server's certificate.")
    ] = False,
    runs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="With --metrics: the folder of the runs.")
    ] = Path("runs"),
    json_lines: Annotated[bool, typer.Option("--json-log", help="Log JSON objects, one a line.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only say what would be wrong, and exit with 1.")] = False,
    health: Annotated[str, typer.Option(metavar="HOST:PORT", help="Only for one part: address of health checks.")] = "",
) -> None:  # fmt: skip
    """Run a server, until stopped: clients connect to it (fedlearn client), users submit runs (fedlearn submit).

    Needs nginx. It ends with an error if a key is missing, a certificate has expired, or a port is in use. Guide:
    docs/howto/deployment.md.
    """
    from fedlearn.engine.deployment.server_processes import ServerOptions, become, check_all, run

    addresses = {"listen": listen, "superlink": superlink, "runtime": runtime, "health": health, "metrics": metrics}
    for name, address in addresses.items():
        check_address(f"--{name}", address)
    if part is Part.ALL and (runtime or health):
        raise UsageError("--runtime and --health are for one part: name it, such as fedlearn server proxy")
    if part is not Part.ALL and metrics:
        raise UsageError("--metrics is for the whole server: leave out the part")
    if (metrics_token or metrics_tls) and not metrics:
        raise UsageError("--metrics-token and --metrics-tls: give --metrics HOST:PORT, too")
    options = ServerOptions(
        keys=keys,
        state=state,
        runs=runs,
        metrics_token=metrics_token,
        metrics_tls=metrics_tls,
        json_lines=json_lines,
        **addresses,
    )
    if check:
        found = check_all(options)
        typer.echo("\n".join(found) if found else "nothing is wrong: fedlearn server can start")
        raise typer.Exit(bool(found))
    if part is Part.ALL:
        run(options)
    else:
        become(part.value, options)
