"""``fedlearn backup`` and ``fedlearn restore``: the keys and runs of a server, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, such as /backup/server.tar.")],
    keys: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's keys.")] = Path("keys"),
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the runs.")] = Path("runs"),
) -> None:
    """Back up a server's keys, its log of admissions and its runs, while it runs; only you can read the file.

    Nothing of a client is in it: a client's ledger is never restored from a backup.
    """
    from fedlearn.engine.deployment.server_backup import back_up

    made = back_up(file, keys=keys, runs=runs)
    for name in made.left_out:
        typer.echo(f"{name}: it is no plain file, and is left out")
    typer.echo(f"{file}: {made.files} files, runs: {', '.join(made.runs) or 'none'}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of fedlearn backup.")],
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where keys and runs are written; it must have neither.")
    ] = Path(),
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A later copy of keys/admissions.log: its revocations since then count."),
    ] = None,
) -> None:
    """Restore a server's keys and runs from a backup, into a folder that has none; a damaged file is refused.

    Revocations since the backup are not in it: give the log of the lost server or a copy of it by --log, or repeat
    them by fedlearn admit --revoke before you start the server.
    """
    from fedlearn.engine.deployment.admitting import APPROVED, Admissions
    from fedlearn.engine.deployment.server_backup import restore as restored

    made = restored(file, folder, log=log)
    typer.echo(f"{folder}: {made.files} files as of {made.made}, runs: {', '.join(made.runs) or 'none'}")
    admitted = [each for each in Admissions(folder / "keys").latest().values() if each.step == APPROVED]
    for each in admitted:
        typer.echo(f"admitted{'' if log else ' as of then'}: client {each.client}, {each.name}, {each.fingerprint}")
    if log:
        typer.echo(f"{log}: {made.later} steps came after the backup, and count")
    elif admitted:
        typer.echo("without --log: revoke again whom you have revoked since then, before you start the server")
