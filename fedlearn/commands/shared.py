"""What `simulate`, `submit` and `fedlearn.run` share: reading settings, ending after Ctrl-C, the table of results."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedlearn.config import RunConfig, config_from
from fedlearn.config.config_sources import (
    Layer,
    layer_of_environment,
    layers_of_file,
    merged,
    place_of,
    said_of_environment,
)
from fedlearn.core.errors import FedlearnError, RunFailed, UsageError, printable, said
from fedlearn.core.stopping import Stopped, interrupted_code
from fedlearn.plugins import objects
from fedlearn.plugins.tracebacks import shortened
from fedlearn.runs.safe_reading import check_path, cleaned

WRITTEN_BEFORE_THE_START = {
    ".lock", "events.jsonl", "settings.toml", "environment.json", "data.json", "dealt.json", "checkpoint.json",
    "metrics.csv", "checkpoint", "model.safetensors", "frozen.safetensors", "tensorboard", "mlflow_run_id.txt",
    "wandb_run_id.txt", "wandb", "tracebacks.txt",
}  # fmt: skip
ADDRESS = re.compile(r"[\w.:\[\]-]+:(\d{1,5})")
MOST_LINES = 20  # of statistics in the table at the end of a run


@contextmanager
def unlogged(level: int) -> Iterator[None]:
    """Silence log records of this level and below within the block."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)


def run_settings(
    given: dict[str, Any],
    configs: Sequence[Path],
    resume: Path | None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> RunConfig:
    """Return the settings of a new or resumed run, with its folder.

    Parameters
    ----------
    given
        What the command line or the call says.
    configs
        Files of settings, the later of which win.
    environment
        Variables of which those that name settings win over files; a resumed run reads none.
    """
    from fedlearn.commands.unused_settings import check_protects
    from fedlearn.runs.folder import RunFolder, new_folder

    for flag, path in (("--resume", resume), *(("--config", each) for each in configs)):
        if path is not None:
            check_path(path, flag)
    if resume is not None:
        if configs:
            raise UsageError("--config and --resume: a resumed run has its own settings")
        if "model.initial" in given:
            raise UsageError("--from and --resume: a resumed run continues from its own state: leave one of them out")
        stored = RunFolder(resume).read_settings()
        objects.look_in(resume)
        if given.get("engine.name", stored.get("engine.name")) != stored.get("engine.name"):
            stored = {name: value for name, value in stored.items() if name != "engine.options"}  # the other engine's
        resumed = config_from({**stored, **given, "out": str(resume)}, source=str(resume))
        check_protects(given, resumed)
        return resumed
    layers = all_layers(configs, environment)
    from_file = merged(layers)
    for config in configs:
        objects.look_in(config.parent)  # the settings of a run that was begun from Python
    if "model.initial" in given:
        from_file = {name: value for name, value in from_file.items() if name != "model.initial_sha256"}
    layers = [*layers, Layer("", given)]
    settings = _with_model(merged([Layer("", from_file), layers[-1]]), lambda name: place_of(name, layers))
    check_protects(given, settings, in_file=from_file)
    check_path(Path(settings.out), "--out")
    folder = Path(settings.out) if settings.out else new_folder()
    if (folder / "checkpoint.json").exists():
        raise UsageError(
            f"--out {said(folder)}: it holds a run; resume it by --resume {folder}, or name another folder"
        )
    if settings.data.scaling:
        from fedlearn.data.scaling import with_scaling

        settings = with_scaling(settings)
    return settings.model_copy(update={"out": str(folder.resolve())})


def _with_model(flat: Mapping[str, Any], source: Callable[[str], str]) -> RunConfig:
    """Return the settings; with the recommended model, which a line says, of a private table that names none."""
    from fedlearn.models.presets import settings_from

    settings = settings_from(flat, source=source)
    if "privacy.epsilon" not in flat or "model.name" in flat:
        return settings
    from fedlearn.private_trees.federated.recommended import recommended_for

    if (found := recommended_for(flat, settings)) is None:
        return settings
    chosen = {"model.name": found.model, **({"model.options": found.options} if found.options else {})}
    print(f"note: {', '.join(f'{name} = {value}' for name, value in chosen.items())}: {found.why}", file=sys.stderr)
    return settings_from({**flat, **chosen}, source=source)


def check_address(flag: str, address: str) -> None:
    """Raise UsageError for the address of a flag, if one is given, that is not HOST:PORT."""
    found = ADDRESS.fullmatch(address)
    if address and not (found and int(found[1]) < 1 << 16):
        raise UsageError(f"{flag} {said(address)}: write HOST:PORT, such as 0.0.0.0:8443, with a port up to 65535")


def all_layers(configs: Sequence[Path], environment: Mapping[str, str] = os.environ) -> list[Layer]:
    """Return the layers of settings below what is given: files, then the environment, of which a line is printed."""
    variables = layer_of_environment(environment)
    if line := said_of_environment(variables):
        print(f"note: {printable(line)}", file=sys.stderr)
    return [*(layer for each in configs for layer in layers_of_file(each)), variables]


@contextmanager
def resumable(folder: Path, *, is_new: bool = True) -> Iterator[None]:
    """Say after Ctrl-C how to resume the run; remove the folder of a new run of which nothing was stored."""
    try:
        with _about(folder):
            yield
    except KeyboardInterrupt as stop:
        if _is_begun(folder):
            raise Interrupted(stop, f"; resume by --resume {_short(folder)}", folder) from None
        _remove_unstarted(folder, is_new=is_new)
        raise Interrupted(stop, " before anything was stored") from None
    except UsageError:
        _remove_unstarted(folder, is_new=is_new)
        raise


@contextmanager
def _about(folder: Path) -> Iterator[None]:
    """Let every error say of which run it is; any exception is an error of that run."""
    try:
        yield
    except FedlearnError as error:
        error.folder = folder
        raise
    except OSError:
        raise
    except Exception as error:  # of a plugin, or a bug of ours
        from fedlearn.runs.kept_tracebacks import keep

        failed = RunFailed(f"{shortened(error)}{keep(error, _short(folder))}")
        failed.folder = folder
        raise failed from error


def _is_begun(folder: Path) -> bool:
    return (folder / "checkpoint.json").exists()


def _remove_unstarted(folder: Path, *, is_new: bool) -> None:
    """Remove what a run writes before it starts, if that is all there is in its folder."""
    with suppress(OSError):
        log = folder / "events.jsonl"
        has_started = log.exists() and log.stat().st_size > 0
        if is_new and not has_started and {path.name for path in folder.iterdir()} <= WRITTEN_BEFORE_THE_START:
            shutil.rmtree(folder)
            if folder.parent.name == "runs":
                folder.parent.rmdir()  # unless there are other runs


class Interrupted(FedlearnError):
    """A command was stopped, by Ctrl-C or a signal, or by a request that it has met: the exit code of that is 0.

    Parameters
    ----------
    stop
        What has stopped it.
    then
        What to do now.
    folder
        That of the run that was stopped, if anything is stored in it.
    """

    def __init__(self, stop: KeyboardInterrupt, then: str, folder: Path | None = None) -> None:
        self.is_wanted = isinstance(stop, Stopped) and stop.is_wanted
        self.exit_code = 0 if self.is_wanted else interrupted_code()
        self.folder = folder
        by = f" ({stop.reason})" if isinstance(stop, Stopped) else ""
        super().__init__(f"{'stopped' if self.is_wanted else 'interrupted'}{by}{then}")


def result_table(summary: dict[str, Any], folder: Path) -> Table:
    """Return the table at the end of a run, for a terminal."""
    table = Table(title="result", title_justify="left", show_header=False, title_style="bold")
    table.add_column(style="dim", max_width=8)  # so that a SHA-256 stands in one line of 80 letters
    table.add_column(overflow="fold")
    for row in result_rows(summary, folder):
        table.add_row(*row)
    return table


def result_rows(summary: dict[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table at the end of a run as markup: notices, scores, privacy, bytes, the run folder."""
    from fedlearn.core.metrics import KNOWN, declared
    from fedlearn.report.chosen import best_in_words, once_in_words
    from fedlearn.report.numbers import seconds, size, text_of

    summary = cleaned(summary)
    for notice in (summary["dataset_notice"], summary.get("noise_notice"), *summary.get("notices", ())):
        if notice:
            yield "NOTE", f"[bold yellow]{escape(notice)}[/]"
    metrics = declared(summary.get("metrics")) or KNOWN
    for metric in metrics.results:
        if (value := summary.get(metric.name)) is None or (metrics.tested and metric in metrics.evaluated):
            continue
        if metric.is_privacy_loss:
            counted, unit = "; ".join(_counted_in(summary)), str(summary.get("unit", "record"))
            unit = unit.replace("node", "client")
            yield "privacy spent", f"{metric.title} {value:g} per {unit} ({counted})"
        elif (best := summary.get(f"best_{metric.name}")) is not None:
            once = metric in metrics.tested
            known = once_in_words(metrics, summary) if once else f"({best_in_words(metric, best, summary)})"
            yield escape(metric.axis_title), f"[bold green]{text_of(metric, value)}[/] {escape(known)}"
        else:
            yield escape(metric.axis_title), text_of(metric, value)
    if lines := _statistics(folder):
        yield "records", escape("\n".join(lines))
    if asked := _gains_not_asked(summary):
        yield "who gains", asked
    yield "data", escape(f"{summary['dataset']}, {summary['clients']} clients")
    if summary.get("learning_rate"):
        yield "learning rate", escape(str(summary["learning_rate"]))
    yield "rounds", f"{summary['rounds']} in {summary['seconds']:.1f} s"
    if summary.get("stopped_early"):
        yield "stopped early", escape(str(summary["stopped_early"]))
    is_sent = "baseline" not in summary and "bytes_up" in summary  # which is secret where the draw of nodes is
    if is_sent and summary["compression_ratio"] and round(summary["compression_ratio"], 2) != 1:
        ratio = f"({summary['compression_ratio']:.2f} times smaller than plain)"
        yield "upload", f"{size(summary['bytes_up'])} {ratio}"
    elif is_sent and summary["bytes_up"]:
        yield "upload", size(summary["bytes_up"])
    if is_sent:
        yield "download", size(summary["bytes_down"])
        yield "both ways", _both_ways(summary)
    if (on_devices := summary.get("virtual_seconds")) is not None:
        yield "on devices", seconds(on_devices)
    yield "SHA-256", summary["model_sha256"]
    yield "results", escape(printable(str(_short(folder))))


def print_result(console: Console, summary: dict[str, Any], folder: Path) -> None:
    """Print the table at the end of a run, and the answer of an analysis below it."""
    from fedlearn.runs.analysis_answers import read_answer

    console.print(result_table(summary, folder))
    with suppress(OSError, ValueError):  # the page says what is wrong with the file
        if found := read_answer(folder):
            console.print(found.summary(), markup=False, soft_wrap=True)


def _statistics(folder: Path) -> list[str]:
    """Return the lines of the run's statistics, the first alone where they are many; empty where there are none."""
    from fedlearn.runs.statistics_json import read_statistics

    with suppress(OSError, ValueError):  # the page says what is wrong with the file
        if found := read_statistics(folder):
            lines = found.lines()
            return lines if len(lines) <= MOST_LINES else [f"{lines[0]}; {len(lines) - 1} columns are on the page"]
    return []


def _both_ways(summary: Mapping[str, Any]) -> str:
    """Return the bytes of both directions, with the bits for each parameter of a message in each."""
    from fedlearn.report.numbers import bits_both_ways, size

    total = size(summary["bytes_up"] + summary["bytes_down"])
    bits = bits_both_ways(summary.get("bits_up"), summary.get("bits_down"))
    return f"{total} ({bits})" if bits else total


def _gains_not_asked(summary: Mapping[str, Any]) -> str:
    """Return how to learn who gains, for a federation whose nodes have tests and nothing to compare them with."""
    from fedlearn.core.gains import NOT_ASKED
    from fedlearn.core.metrics import KNOWN, declared
    from fedlearn.core.spread import ON_NODES

    metric = (declared(summary.get("metrics")) or KNOWN).of_model
    name = metric.name if metric else ""
    has_tests = summary.get(f"{name}{ON_NODES}") is not None and "baseline" not in summary
    return NOT_ASKED if has_tests and f"{name}_losing" not in summary else ""


def _short(folder: Path) -> Path:
    """Return a path relative to the current folder, if it lies below that."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _counted_in(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words without which an epsilon of a summary means nothing."""
    for name in ("neighboring", "trust", "delta", "sampling"):
        if value := summary.get(name, ""):
            yield f"{name} {value:g}" if isinstance(value, float) else str(value)
