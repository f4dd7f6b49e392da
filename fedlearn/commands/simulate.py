"""``fedlearn simulate``: a federation on this machine."""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedlearn.commands.completing import assignments_like, names_like
from fedlearn.commands.flags import with_flags
from fedlearn.commands.shared import result_table, resumable, run_settings
from fedlearn.config import RunConfig, flat_from_assignments
from fedlearn.config.marks import Panel
from fedlearn.config.names import flags, names_of
from fedlearn.plugging.registry import call_plugin
from fedlearn.words.errors import RunFailed, printable

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
        typer.Option(metavar="FOLDER", help="Go on with the run in this folder.", rich_help_panel=RUNNING),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings as TOML; flags win over it.", rich_help_panel=RUNNING),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting by its dotted name; may be repeated. "
            "fedlearn settings lists them.", rich_help_panel=RUNNING, autocompletion=assignments_like,
        ),
    ] = None,
    dashboard: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:][PORT]", help="Serve a live page while the run goes on; on port 8765 of this machine "
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
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=RUNNING)] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.", rich_help_panel=RUNNING)
    ] = False,
) -> None:  # fmt: skip
    """Run a federation on this machine: every node trains on its own part of the data.

    Without any flag: the CIFAR-10 CNN on 100 clients, 20 of them in each of 20 rounds.
    """
    given = given | flat_from_assignments(set_ or [])
    settings = run_settings(given, config, resume)
    show = not (quiet or as_json)
    if show:
        _say_what_is_unread(given, settings)
    _run(settings, is_new=resume is None, show=show, as_json=as_json, page=dashboard, log=log or [])


def _say_what_is_unread(given: dict[str, Any], settings: RunConfig) -> None:
    from fedlearn.commands.unread import unread

    for line in unread(given, settings):
        typer.echo(f"note: {printable(line)}", err=True)


def _run(settings: RunConfig, *, is_new: bool, show: bool, as_json: bool, page: str | None, log: list[str]) -> None:
    from fedlearn.engine import ENGINES, load_engine
    from fedlearn.engine.embedded.forkserver import end
    from fedlearn.report.dashboard import beside
    from fedlearn.report.listeners import listened
    from fedlearn.report.terminal import watched
    from fedlearn.runs.folder import RunFolder
    from fedlearn.runs.kept_objects import objects_kept

    console = Console(highlight=False)
    folder = RunFolder(Path(settings.out))
    with resumable(folder.path, is_new=is_new), objects_kept(settings), ExitStack() as around:
        engine = load_engine(settings.engine.name)
        if not engine.forks:
            end()  # the process that was begun before the settings were known
        around.enter_context(listened(log, folder.events, settings))
        url = around.enter_context(beside(folder.path, page))
        if url and not as_json:
            console.print(f"live page: {url}", soft_wrap=True)
        around.enter_context(watched(folder.events, console) if show else nullcontext())
        if settings.engine.name in ENGINES:
            engine(settings)
        else:
            call_plugin("engine.name", settings.engine.name, engine, settings)
        if not folder.has_summary:
            raise RunFailed(f"engine.name = {settings.engine.name!r} has run, and left no summary in {folder.path}")
    summary = folder.read_summary()
    if as_json:
        print(json.dumps({**summary, "out": str(folder.path)}))
    elif show:
        console.print(result_table(summary, folder.path))
