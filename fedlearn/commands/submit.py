"""``fedlearn submit``: a run on a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedlearn.commands.shared import check_address, print_result, resumable, run_settings
from fedlearn.config import flat_from_assignments
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.runs.safe_reading import check_path


def submit(
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server's Control API.")],
    root_certificates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate authority, PEM; without it no TLS.")
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Public keys of the allowed clients, such as 3.pub for partition 3."),
    ] = None,
    runs: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder of the server app's run folders; the same path here."),
    ] = Path("runs"),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run folder (default: the time).")
    ] = None,
    resume: Annotated[str | None, typer.Option(metavar="NAME", help="Resume this run.")] = None,
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Settings as TOML, JSON or YAML; may be repeated.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="Maximum number of resumes after the server app has died.")] = 3,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for all clients before the run.")] = 120.0,
) -> None:
    """Run a federation on real clients over a network, and follow it to its end.

    docker-compose.yml starts the clients and this. Exit code 1, with the reason in the last line, if the run failed.
    """
    from fedlearn.engine.deployment import proxies
    from fedlearn.engine.deployment.job import Job, Patience
    from fedlearn.flower.control import Control
    from fedlearn.report.terminal import watched
    from fedlearn.runs.folder import RunFolder, new_folder

    check_address("--superlink", superlink)
    if root_certificates and not root_certificates.is_file():
        raise UsageError(
            f"--root-certificates {root_certificates}: there is no such file; name the public/ca.crt that "
            "fedlearn keys has made"
        )
    named = resume or name
    check_path(runs / (named or ""), "--runs, --name, --resume")
    folder = ((runs / named) if named else new_folder(runs)).resolve()
    given = flat_from_assignments(set_ or []) | ({} if resume else {"out": str(folder)})
    try:
        settings = run_settings(given, config or [], folder if resume else None)
    except UsageError as error:
        raise RunFailed(str(error)) from None  # exit code 1, as for every run that failed
    console = Console(highlight=False)
    proxies.keep_local()
    if through := proxies.remark(superlink):
        console.print(through, markup=False)
    control = Control(superlink, root_certificates.read_bytes() if root_certificates else None)
    job = Job(control, settings, Patience(nodes=wait, retries=retries), lambda line: console.print(line, markup=False))
    with resumable(folder, is_new=not resume):
        if nodes is not None:
            job.let_in(nodes)
        with watched(folder / "events.jsonl", console):
            job.run()
    print_result(console, RunFolder(folder).read_summary(), folder)
