"""``fedlearn agree``: the owner of a client sees the runs that wait for an answer, and answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import RunFailed, UsageError, printable


def agree(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The client's --ask.")],
    run: Annotated[str, typer.Option(metavar="ID", help="Agree to this run; the first digits do.")] = "",
    study: Annotated[str, typer.Option(metavar="ID", help="Agree to this run, and to others with another seed.")] = "",
    no: Annotated[str, typer.Option(metavar="ID", help="Refuse this run, also with another seed.")] = "",
    code: Annotated[
        str, typer.Option(metavar="SHA256", help="Allow other code than fedlearn's, by the SHA-256 that a page shows.")
    ] = "",
    no_code: Annotated[str, typer.Option("--no-code", metavar="SHA256", help="Allow this code no longer.")] = "",
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for your log.")] = "",
    log: Annotated[bool, typer.Option("--log", help="Print all answers, oldest first; check that none was changed.")]
    = False,
) -> None:  # fmt: skip
    """Show the runs that a server has announced to this client, a page each, and answer them.

    The client takes part only in runs to which you agree. A later answer replaces an earlier one, also in mid-run.
    """
    from fedlearn.privacy.ledger_lines import LedgerDamaged
    from fedlearn.runs import agreements

    given = {agreements.RUN: run, agreements.STUDY: study, agreements.NO: no}
    of_code = {agreements.CODE: code, agreements.NO_CODE: no_code}
    if sum(map(bool, {**given, **of_code}.values())) > 1:
        raise UsageError("--run, --study, --no, --code, --no-code: one at a time")
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder: name the one that the client has as --ask")
    found = agreements.Agreements(folder)
    try:
        for answer, which in given.items():
            if which:
                said = found.answer(which, answer, why=why)
                typer.echo(f"run {said.run}: {answer}")
        for answer, which in of_code.items():
            if which:
                typer.echo(f"{answer} {found.allow(which, answer, why=why).page}")
        if log:
            for each in found.answers():
                about = f"run {each.run}, study {each.study}" if each.run else each.page
                typer.echo(printable(f"{each.when[:19]} {each.answer}: {about}, by {each.who} {each.why}".strip()))
        elif not any({**given, **of_code}.values()):
            waiting = found.waiting()
            for page in waiting.values():
                typer.echo(page)
            typer.echo(f"{len(waiting)} runs wait for your answer: --run ID, --study ID or --no ID")
    except LedgerDamaged as error:
        raise RunFailed(f"{folder / 'answers.log'}: {error}: restore a copy of the folder") from None
