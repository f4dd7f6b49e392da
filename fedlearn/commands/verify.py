"""``fedlearn verify``: whether a run is what it was when it ended, and whether it comes out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.core.errors import RunFailed, printable

if TYPE_CHECKING:
    from fedlearn.commands.verified import Verified


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run that has ended, or a forgotten.json.")
    ],
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Run it again, with its code, in another folder; compare the SHA-256. Of a forgotten.json: the run "
            "with the client, too.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a run with its checksums: files, stored round, data, own code, versions. Exit code 1 for differences.

    The certificate of fedlearn forget is run, from round 1, and its SHA-256 compared; with --again the run with the
    client, too, which must have the model that was replaced.

    Checksums find damage and careless edits; only --again finds a forgery, as checksums can be forged, too.
    """
    from fedlearn.commands.verified import verified

    if folder.is_file():
        _verify_certificate(folder, again=again, as_json=as_json)
        return
    found = verified(folder, again=again)
    if as_json:
        print(json.dumps({"run": str(folder), "sound": not found.wrong, **vars(found)}, indent=2))
    else:
        _show(folder, found)
    if found.wrong:
        raise RunFailed(f"{folder}: {len(found.wrong)} of what was compared differ: {found.wrong[0]}")


def _verify_certificate(path: Path, *, again: bool, as_json: bool) -> None:
    from fedlearn.commands.forgetting import certified

    found = certified(path, again=again)
    if as_json:
        made = {"again": found.after, **({"with": found.before} if again else {})}
        print(json.dumps({"certificate": str(path), "sound": True, **made}, indent=2))
    else:
        about = f"run from round 1 without client {found.client}, the model has the SHA-256 {found.after}"
        about += f"; with it, {found.before}" if again else ""
        print(printable(f"sound    {path}: {about}"))


def _show(folder: Path, found: Verified) -> None:
    for line in found.wrong:
        print(printable(f"differs  {line}"))
    for line in found.notes:
        print(printable(f"note     {line}"))
    if not found.wrong:
        again = f"; run again, its model has the same SHA-256, {found.again}" if found.again else ""
        print(printable(f"sound    {folder}: {found.files} files and the stored round are as they were written{again}"))
