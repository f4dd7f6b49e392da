"""The command line: flags, files and ``--set`` become settings; an engine runs them; one table says what came of it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedlearn.config import RunConfig, config_from, flat_from_assignments, flat_from_file, to_flower
from fedlearn.config.load import described
from fedlearn.errors import FedlearnError, RunFailed, UsageError
from fedlearn.report.commands import DEFAULT_PORT, compare, dashboard, report

INTERRUPTED = 130  # what a shell expects of a command that was ended by Ctrl-C

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", no_args_is_help=True)


@app.callback()
def fedlearn() -> None:
    """Federated learning in rounds of selection, configuration and reporting."""


def _flag(name: str, setting: str, metavar: str, panel: str) -> Any:
    """Return the option that fills a setting.

    All are read as text: the schema checks them, so that a bad value gives the same one line from wherever it comes.
    """
    text, default = described(setting)
    shown = f"{text} \\[default: {default}]" if default != "" else text
    return typer.Option(name, metavar=metavar, help=shown, rich_help_panel=panel)


RUN, LEARNING, SENDING, RUNNING = "Rounds", "Data, model, training", "Reports", "Running"


@app.command(
    epilog="\n\n".join(
        [
            "Examples:",
            "fedlearn simulate --clients 100 --compression drop --keep-ratio 0.1",
            "fedlearn simulate --dataset digits --clients 10 --rounds 5 --set training.momentum=0.5",
            "fedlearn simulate --clients 25 --model dp-forest --dataset california --epsilon 1",
            "fedlearn simulate --resume runs/20261121-101500",
        ]
    )
)
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
    settings = _settings(given | flat_from_assignments(set_ or []), config, resume)
    _run(settings, show=not (quiet or as_json), as_json=as_json, page=dashboard, log=log or [])


for _command in (report, compare, dashboard):
    app.command()(_command)


@app.command()
def submit(
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server's Control API.")],
    root_certificates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate authority, PEM; without it there is no TLS.")
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Public keys of the nodes to let in, as 3.pub for partition 3."),
    ] = None,
    runs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the server app writes run folders; must be the same here.")
    ] = Path("runs"),
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the new run folder; else the time.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="NAME", help="Go on with this run.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as TOML.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often to go on after the server app has died.")] = 3,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for all nodes before the run.")] = 120.0,
) -> None:
    """Run a federation on real clients over a network, and follow it; ends as the run ends.

    docker-compose.yml starts the clients and this. Exit code 1, with the reason in the last line, if the run failed.
    """
    from fedlearn.engine.deployment.job import Job, Patience
    from fedlearn.flower_control import Control
    from fedlearn.live import watched
    from fedlearn.run_folder import RunFolder

    folder = (runs / (resume or name or f"{datetime.now():%Y%m%d-%H%M%S}")).resolve()
    given = flat_from_assignments(set_ or []) | ({} if resume else {"out": str(folder)})
    try:
        settings = _settings(given, config, folder if resume else None)
    except UsageError as error:
        raise RunFailed(str(error)) from None  # the settings are the run's: whoever waits for it sees that it failed
    console = Console(highlight=False)
    control = Control(superlink, root_certificates.read_bytes() if root_certificates else None)
    job = Job(control, settings, Patience(nodes=wait, retries=retries), lambda line: console.print(line, markup=False))
    with _resumable(folder):
        if nodes is not None:
            job.let_in(nodes)
        with watched(folder / "events.jsonl", console):
            job.run()
    console.print(_result(RunFolder(folder).read_summary(), folder))


@app.command()
def settings() -> None:
    """List every setting with its default and meaning; the list is a file that --config reads."""
    table = ""
    for name, value in to_flower(RunConfig()).items():
        section, _, key = name.rpartition(".")
        if section != table:
            table = section
            print(f"\n[{section}]")
        shown = str(value).lower() if isinstance(value, bool) else json.dumps(value)
        print(f"{key} = {shown}  # {described(name)[0]}")


@app.command()
def audit(
    draws: Annotated[int, typer.Option(min=1000, help="Outputs of each data set; more prove more.")] = 100_000,
    seed: Annotated[int | None, typer.Option(help="Audit seeded noise; without it the secure one.")] = None,
) -> None:
    """Try to refute every privacy claim by experiment, and check that the auditor catches what is wrong.

    Exit code 1 if a claim is refuted, or if the paper's printed algorithm or a planted bug is not.
    """
    from fedlearn.privacy.audit import Verdict, audit_everything
    from fedlearn.privacy.audit_cases import MECHANISM_CASES
    from fedlearn.trees.audits import PLANTED_BUGS, TREE_CASES
    from fedlearn.trees.class_audits import CLASS_PLANTED_BUGS, CLASS_TREE_CASES

    sound = MECHANISM_CASES | TREE_CASES | CLASS_TREE_CASES
    expected = dict.fromkeys(sound, Verdict.NOT_REFUTED)
    expected |= dict.fromkeys(PLANTED_BUGS | CLASS_PLANTED_BUGS, Verdict.REFUTED)
    table = Table("what is audited", "claimed", "at least", "verdict", title="epsilon, claimed and measured")
    wrong = []
    for name, case in (sound | PLANTED_BUGS | CLASS_PLANTED_BUGS).items():
        (result,) = audit_everything(draws, seed, {name: case})
        is_expected = result.verdict is expected[name]
        wrong += [] if is_expected else [str(result)]
        colour = "green" if is_expected else "bold red"
        table.add_row(name, f"{result.claimed:g}", f"{result.measured:.3f}", f"[{colour}]{result.verdict}[/]")
    Console(highlight=False).print(table)
    print("Measured bounds hold with confidence 0.9999 each. A claim that is not refuted is not thereby proved.")
    if wrong:
        raise RunFailed("not as it must be: " + "; ".join(wrong))


def _settings(given: dict[str, Any], config: Path | None, resume: Path | None) -> RunConfig:
    """Return the settings of a new or resumed run, with its folder."""
    from fedlearn.run_folder import RunFolder

    if resume is not None:
        if config is not None:
            raise UsageError("--config and --resume: a resumed run has its own settings")
        stored = RunFolder(resume).read_settings()
        return config_from({**stored, **given, "out": str(resume)}, source=str(resume))
    from_file = flat_from_file(config) if config is not None else {}
    settings = config_from({**from_file, **given}, source=str(config or ""))
    folder = Path(settings.out) if settings.out else _new_folder()
    if (folder / "checkpoint.json").exists():
        raise UsageError(f"--out {folder}: it holds a run; go on with it by --resume {folder}, or name another folder")
    return settings.model_copy(update={"out": str(folder.resolve())})


def _new_folder() -> Path:
    """Return a folder under runs/ that is not there yet."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}"
    folders = (Path("runs") / (name if not count else f"{name}-{count}") for count in range(1000))
    return next(folder for folder in folders if not folder.exists())


def _run(settings: RunConfig, *, show: bool, as_json: bool, page: str | None, log: list[str]) -> None:
    from fedlearn.engine import ENGINES
    from fedlearn.live import watched
    from fedlearn.report.dashboard import beside
    from fedlearn.report.listeners import listened
    from fedlearn.run_folder import RunFolder

    console = Console(highlight=False)
    folder = RunFolder(Path(settings.out))
    engine = ENGINES.load(settings.engine.name)
    with _resumable(folder.path), ExitStack() as around:
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
        console.print(_result(summary, folder.path))


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        hint = f"go on by --resume {_short(folder)}" if (folder / "checkpoint.json").exists() else ""
        raise Interrupted(f"interrupted; {hint}" if hint else "interrupted before anything was stored") from None


class Interrupted(FedlearnError):
    """The user pressed Ctrl-C."""

    exit_code = INTERRUPTED


def _result(summary: dict[str, Any], folder: Path) -> Table:
    """Return the table at the end of a run."""
    from fedlearn.live import number, size
    from fedlearn.metrics import title_of

    table = Table(title="result", title_justify="left", show_header=False, title_style="bold")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for notice in (summary["dataset_notice"], summary.get("noise_notice")):
        if notice:
            table.add_row("NOTE", f"[bold yellow]{notice}[/]")
    for name in ("accuracy", "mae", "mae_scaled", "loss"):
        if summary.get(name) is None:
            continue
        value = number(summary[name])
        if f"best_{name}" in summary:
            best = f"(best {number(summary[f'best_{name}'])} in round {summary['best_round']})"
            table.add_row(title_of(name), f"[bold green]{value}[/] {best}")
        else:
            table.add_row(title_of(name), value)
    if summary.get("epsilon") is not None:
        table.add_row("privacy spent", f"epsilon {summary['epsilon']:g} per record ({summary['neighboring']})")
    table.add_row("data", f"{summary['dataset']}, {summary['clients']} clients")
    table.add_row("rounds", f"{summary['rounds']} in {summary['seconds']:.1f} s")
    if summary["compression_ratio"]:
        ratio = f"({summary['compression_ratio']:.2f} times smaller than plain)"
        table.add_row("upload", f"{size(summary['bytes_up'])} {ratio}")
    elif summary["bytes_up"]:
        table.add_row("upload", size(summary["bytes_up"]))
    table.add_row("download", size(summary["bytes_down"]))
    table.add_row("SHA-256", summary["model_sha256"])
    table.add_row("results", str(_short(folder)))
    return table


def _short(folder: Path) -> Path:
    """Return a path as seen from here, where that is shorter."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def with_default_port(arguments: list[str]) -> list[str]:
    """Return the arguments with a port after every ``--dashboard`` that has none; typer knows no optional values.

    >>> with_default_port(["--dashboard", "--clients", "5"])
    ['--dashboard', '8765', '--clients', '5']
    """
    filled = []
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=True):
        filled.append(argument)
        if argument == "--dashboard" and following.startswith("-"):
            filled.append(DEFAULT_PORT)
    return filled


def main(arguments: list[str] | None = None, program: str = "fedlearn") -> None:
    """Run a command and end the process: 0 done, 1 the run failed, 2 it was asked for wrongly."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        app(args=with_default_port(sys.argv[1:] if arguments is None else arguments), prog_name=program)
    except FedlearnError as error:
        print(f"error: {error}" if not isinstance(error, Interrupted) else str(error), file=sys.stderr)
        sys.exit(error.exit_code)
