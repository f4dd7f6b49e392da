"""``fedlearn server``: what nodes connect to, and where runs are submitted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from click.core import ParameterSource

from fedlearn.commands.shared import check_address
from fedlearn.core.errors import UsageError, quoted

ADDRESSES = ("listen", "superlink", "runtime", "health", "metrics")
FILES = ("keys", "state", "runs", "metrics_token")
SWITCHES = ("metrics_tls", "json_log")
PARAMETERS = {"json_log": "json_lines"}  # where a parameter is not named as its flag
TYPED = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class Part(StrEnum):
    """What is started."""

    ALL = "all"
    SUPERLINK = "superlink"
    PROXY = "proxy"
    APP = "app"


def server(
    context: typer.Context,
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
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file of these flags, such as listen = '...'; flags win.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what would be wrong, and exit with 1.")] = False,
    health: Annotated[str, typer.Option(metavar="HOST:PORT", help="Only for one part: address of health checks.")] = "",
) -> None:  # fmt: skip
    """Run a server, until stopped: clients connect to it (fedlearn client), users submit runs (fedlearn submit).

    Needs nginx. It ends with an error if a key is missing, a certificate has expired, or a port is in use. Guide:
    docs/howto/deployment.md.
    """
    from fedlearn.engine.deployment.server_processes import ServerOptions, become, check_all, run

    given: dict[str, Any] = {
        "keys": keys, "state": state, "runs": runs, "listen": listen, "superlink": superlink, "runtime": runtime,
        "health": health, "metrics": metrics, "metrics_token": metrics_token, "metrics_tls": metrics_tls,
        "json_log": json_lines,
    }  # fmt: skip
    wrong: list[str] = []
    if config is not None:
        in_file, wrong = _read(config, given)
        typed = {name for name in given if context.get_parameter_source(PARAMETERS.get(name, name)) in TYPED}
        given |= {name: value for name, value in in_file.items() if name not in typed}
    wrong += _mistakes(part, given)
    if wrong and not check:
        raise UsageError(wrong[0])
    options = ServerOptions(**{PARAMETERS.get(name, name): value for name, value in given.items()})
    if check:
        found = wrong or check_all(options)
        typer.echo("\n".join(found) if found else "nothing is wrong: fedlearn server can start")
        raise typer.Exit(bool(found))
    if part is Part.ALL:
        run(options)
    else:
        become(part.value, options)


def _mistakes(part: Part, given: dict[str, Any]) -> list[str]:
    """Return what is wrong with the flags, before anything of the machine is looked at."""
    found = []
    for name in ADDRESSES:
        try:
            check_address(f"--{name}", given[name])
        except UsageError as error:
            found.append(str(error))
    if part is Part.ALL and (given["runtime"] or given["health"]):
        found.append("--runtime and --health are for one part: name it, such as fedlearn server proxy")
    if part is not Part.ALL and given["metrics"]:
        found.append("--metrics is for the whole server: leave out the part")
    if (given["metrics_token"] or given["metrics_tls"]) and not given["metrics"]:
        found.append("--metrics-token and --metrics-tls: give --metrics HOST:PORT, too")
    return found


def _read(file: Path, known: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the entries of a file by the names of flags, and what is wrong with it, a line for each mistake."""
    from fedlearn.config.syntax import parsed

    try:
        plain = parsed(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--config {file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--config {file}: {error}") from None
    found, wrong = {}, []
    for name, value in plain.items():
        flag = name.replace("-", "_")
        kind = bool if flag in SWITCHES else str
        if flag not in known:
            flags = ", ".join(each.replace("_", "-") for each in known)
            wrong.append(f"--config {file}: {quoted(name)} is no entry: {flags}")
        elif not isinstance(value, kind):
            wanted = "true or false" if kind is bool else "a text in quotes"
            wrong.append(f"--config {file}: {name} = {quoted(str(value))}: write {wanted}")
        else:
            found[flag] = Path(str(value)) if flag in FILES else value
    return found, wrong
