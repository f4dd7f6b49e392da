"""``fedlearn forget``: a run without one of its clients, to the bytes of a run in which it was never ready."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedlearn.core.errors import printable


def forget(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a completed run.")],
    client: Annotated[int, typer.Option(metavar="N", min=0, help="The client, from 0.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the run without it; RUN-without-N unless given.")
    ] = None,
    scaling: Annotated[
        str, typer.Option(metavar="RUN", help="For a run with data.scaling: statistics measured without the client.")
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only notes and errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON: the certificate.")] = False,
) -> None:
    """Forget a client: train again without it from the last kept checkpoint (rounds.keep_every) before it took part.

    The model has the SHA-256 of a run in which the client was never ready; fedlearn verify FOLDER/forgotten.json
    checks that. The same command resumes after a kill. What was released with the old model stays released.
    """
    from fedlearn.commands.forgetting import forgotten
    from fedlearn.report.terminal import watched

    console = Console(highlight=False)
    show = None if quiet or as_json else lambda events: watched(events, console)
    path, found = forgotten(folder, client, out=out, scaling=scaling, show=show)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
    elif not quiet:
        print(printable(f"with client {client}     {found.before}"))
        print(printable(f"without client {client}  {found.after}"))
        again = f"{found.again} of {found.rounds} rounds were trained again, in {found.cpu_seconds:.1f} CPU seconds"
        print(printable(f"{again}; certificate: {path}"))
