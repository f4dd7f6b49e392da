"""``fedlearn simulate``: a federation on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedlearn.commands.completing import assignments_like, names_like
from fedlearn.commands.flags import with_flags
from fedlearn.commands.shared import print_result, run_settings
from fedlearn.config import RunConfig, flat_from_assignments
from fedlearn.config.marks import Panel
from fedlearn.config.names import flags, names_of

EXAMPLES = """\
Examples:

fedlearn simulate --clients 100 --compression drop --keep-ratio 0.1

fedlearn simulate --dataset digits --clients 10 --rounds 5 --set training.momentum=0.5

fedlearn simulate --clients 25 --model dp-forest --dataset california --epsilon 1

fedlearn simulate --resume runs/20261121-101500"""


RUNNING = Panel.RUNNING


@with_flags(flags())
def simulate(
    given: dict[str, Any],
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Resume the run in this folder.", rich_help_panel=RUNNING),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Settings as TOML, JSON or YAML; may be repeated: later files win over earlier ones, "
            "flags over all.", rich_help_panel=RUNNING,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting by its dotted name; may be repeated. "
            "fedlearn settings lists them.", rich_help_panel=RUNNING, autocompletion=assignments_like,
        ),
    ] = None,
    accept_code: Annotated[
        bool,
        typer.Option("--accept-code", help="With --resume: continue with changed own code; the results say so.",
                     rich_help_panel=RUNNING),
    ] = False,
    dashboard: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:][PORT]", help="Serve a live page during the run; on port 8765 of this machine "
            "unless told otherwise.", rich_help_panel=RUNNING,
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help=f"Also log to {' or '.join(names_of('--log'))}; repeatable.", rich_help_panel=RUNNING,
            autocompletion=names_like("--log"),
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only notes and errors.", rich_help_panel=RUNNING)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only JSON: the summary.", rich_help_panel=RUNNING)
    ] = False,
) -> None:  # fmt: skip
    """Run a federation on this machine: every client trains on its own part of the data.

    Without any flag: the CIFAR-10 CNN on 100 clients, 20 of them in each of 20 rounds.
    """
    from fedlearn.commands.unused_settings import say_unread

    given = given | flat_from_assignments(set_ or [])
    settings = run_settings(given, config or [], resume)
    if accept_code and resume is not None:
        from fedlearn.runs.code_identity import accept_code as accept

        accept(resume, settings)
    show = not (quiet or as_json)
    say_unread(given, settings)
    _run(settings, is_new=resume is None, show=show, as_json=as_json, page=dashboard, log=log or [])


def _run(settings: RunConfig, *, is_new: bool, show: bool, as_json: bool, page: str | None, log: list[str]) -> None:
    from fedlearn.commands.run_once import run_once
    from fedlearn.report.terminal import watched

    console = Console(highlight=False)
    folder = run_once(
        settings,
        is_new=is_new,
        log=log,
        dashboard=page,
        show=(lambda events: watched(events, console)) if show else None,
        say=lambda line: None if as_json else console.print(line, soft_wrap=True),
    )
    summary = folder.read_summary()
    if as_json:
        print(json.dumps({**summary, "out": str(folder.path)}))
    elif show:
        print_result(console, summary, folder.path)
