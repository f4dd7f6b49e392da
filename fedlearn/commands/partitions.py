"""``fedlearn partitions``: which client has which examples, without a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedlearn.commands.flags import Assignments, ConfigFiles, with_flags
from fedlearn.config import flat_from_assignments
from fedlearn.config.names import flags
from fedlearn.core.errors import printable


@with_flags({setting: flag for setting, flag in flags().items() if setting != "out"})
def partitions(
    given: dict[str, Any],
    config: ConfigFiles = None,
    set_: Assignments = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a figure: a .png, .svg or .pdf file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON: sizes and counts.")] = False,
) -> None:  # fmt: skip
    """Print the number of examples of each label on each client of a run, without training.

    The flags are those of simulate: the same flags give the partition of that run.
    """
    from tempfile import TemporaryDirectory

    from fedlearn.commands.shared import run_settings
    from fedlearn.report.partition_report import partitions_of

    given = given | flat_from_assignments(set_ or [])
    with TemporaryDirectory(prefix="fedlearn-partitions-") as nowhere:
        found = partitions_of(run_settings({**given, "out": nowhere}, config or [], None))
    if found.notice:
        typer.echo(f"note: {found.notice}", err=True)
    if as_json:
        print(json.dumps(found.to_plain()))
    else:
        found.printed().show()
    if figure is not None:
        typer.echo(printable(str(found.save(figure))), err=as_json)
