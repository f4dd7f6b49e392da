"""``fedlearn simulate``: a federation on this machine."""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedlearn.commands.shared import result_table, resumable, run_settings
from fedlearn.config import RunConfig, flat_from_assignments
from fedlearn.config.load import described

EXAMPLES = """\
Examples:

fedlearn simulate --clients 100 --compression drop --keep-ratio 0.1

fedlearn simulate --dataset digits --clients 10 --rounds 5 --set training.momentum=0.5

fedlearn simulate --clients 25 --model dp-forest --dataset california --epsilon 1

fedlearn simulate --resume runs/20261121-101500"""


def _flag(name: str, setting: str, metavar: str, panel: str) -> Any:
    """Return the option that fills a setting.

    All are read as text: the schema checks them, so that a bad value gives the same one line from wherever it comes.
    """
    text, default = described(setting)
    shown = f"{text} \\[default: {default}]" if default != "" else text
    return typer.Option(name, metavar=metavar, help=shown, rich_help_panel=panel)


RUN, LEARNING, SENDING, RUNNING = "Rounds", "Data, model, training", "Reports", "Running"


def simulate(
    clients: Annotated[str | None, _flag("--clients", "clients", "N", RUN)] = None,
    rounds: Annotated[str | None, _flag("--rounds", "rounds.total", "N", RUN)] = None,
    cohort: Annotated[str | None, _flag("--cohort", "rounds.cohort", "N", RUN)] = None,
    seed: Annotated[str | None, _flag("--seed", "seed", "N", RUN)] = None,
    dataset: Annotated[str | None, _flag("--dataset", "data.dataset", "NAME", LEARNING)] = None,
    data_dir: Annotated[str | None, _flag("--data-dir", "data.dir", "FOLDER", LEARNING)] = None,
    partition: Annotated[str | None, _flag("--partition", "data.partition", "NAME", LEARNING)] = None,
    model: Annotated[str | None, _flag("--model", "model.name", "NAME", LEARNING)] = None,
    local_epochs: Annotated[str | None, _flag("--local-epochs", "training.local_epochs", "N", LEARNING)] = None,
    batch_size: Annotated[str | None, _flag("--batch-size", "training.batch_size", "N", LEARNING)] = None,
    epsilon: Annotated[str | None, _flag("--epsilon", "privacy.epsilon", "X", LEARNING)] = None,
    lr: Annotated[str | None, _flag("--lr", "training.lr", "X", LEARNING)] = None,
    compression: Annotated[str | None, _flag("--compression", "compression.codec", "CHAIN", SENDING)] = None,
    keep_ratio: Annotated[str | None, _flag("--keep-ratio", "compression.keep_ratio", "X", SENDING)] = None,
    send: Annotated[str | None, _flag("--send", "compression.send", "WHAT", SENDING)] = None,
    strategy: Annotated[str | None, _flag("--strategy", "strategy.name", "NAME", SENDING)] = None,
    engine: Annotated[str | None, _flag("--engine", "engine.name", "NAME", RUNNING)] = None,
    workers: Annotated[str | None, _flag("--workers", "engine.workers", "N", RUNNING)] = None,
    out: Annotated[str | None, _flag("--out", "out", "FOLDER", RUNNING)] = None,
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
            "fedlearn settings lists them.", rich_help_panel=RUNNING,
        ),
    ] = None,
    dashboard: Annotated[
        str | None,
        typer.Option(
            metavar="\\[HOST:]\\[PORT]", help="Serve a live page while the run goes on; on port 8765 of this machine "
            "unless told otherwise.", rich_help_panel=RUNNING,
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also log to tensorboard or mlflow; repeatable.", rich_help_panel=RUNNING),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=RUNNING)] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.", rich_help_panel=RUNNING)
    ] = False,
) -> None:  # fmt: skip
    """Run a federation on this machine: every node trains on its own part of the data.

    Without any flag: the CIFAR-10 CNN on 100 clients, 20 of them in each of 20 rounds.
    """
    flags = {
        "clients": clients, "rounds.total": rounds, "rounds.cohort": cohort, "seed": seed,
        "data.dataset": dataset, "data.dir": data_dir, "data.partition": partition, "model.name": model,
        "training.local_epochs": local_epochs, "training.batch_size": batch_size, "training.lr": lr,
        "privacy.epsilon": epsilon,
        "compression.codec": compression, "compression.keep_ratio": keep_ratio, "compression.send": send,
        "strategy.name": strategy, "engine.name": engine, "engine.workers": workers, "out": out,
    }  # fmt: skip
    given = {name: value for name, value in flags.items() if value is not None}
    settings = run_settings(given | flat_from_assignments(set_ or []), config, resume)
    _run(settings, show=not (quiet or as_json), as_json=as_json, page=dashboard, log=log or [])


def _run(settings: RunConfig, *, show: bool, as_json: bool, page: str | None, log: list[str]) -> None:
    from fedlearn.engine import ENGINES
    from fedlearn.report.dashboard import beside
    from fedlearn.report.listeners import listened
    from fedlearn.report.terminal import watched
    from fedlearn.runs.folder import RunFolder

    console = Console(highlight=False)
    folder = RunFolder(Path(settings.out))
    engine = ENGINES.load(settings.engine.name)
    with resumable(folder.path), ExitStack() as around:
        around.enter_context(listened(log, folder.events, settings))
        url = around.enter_context(beside(folder.path, page))
        if url and not as_json:
            console.print(f"live page: {url}", soft_wrap=True)
        around.enter_context(watched(folder.events, console) if show else nullcontext())
        engine(settings)
    summary = folder.read_summary()
    if as_json:
        print(json.dumps({**summary, "out": str(folder.path)}))
    elif show:
        console.print(result_table(summary, folder.path))
