"""Thousands of random command lines: each ends in one line, and a refused one leaves no file.

    python -m tests.adversary.command_lines --lines 2000 --seed 1

Settings, flags, options and the names of plugins are taken from their tables, so that a new one is attacked unasked.
Lines run in this process, one after another, on the inline engine; a run that gets through all checks is stopped
where its first round would begin. Exit code 1 if any line ends in a traceback, in more than a line, or in a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from fedlearn import cli
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import setting_names
from fedlearn.core.errors import RunFailed
from fedlearn.plugins.registry import Registry

PATIENCE = 120  # seconds for a line
OURS = ("fedlearn", "server", "client", "strategies")
CODES = (0, 1, 2, 130)
STOPPED = "stopped where the first round would begin"

# Objects of the wrong kind: harmless if called, whatever they are given. Nothing that writes, deletes, waits or forks.
_HARMLESS = """
    builtins:dict builtins:list builtins:str builtins:int builtins:object builtins:type builtins:len builtins:repr
    builtins:print builtins:exit builtins:NotImplemented builtins:None builtins:Ellipsis sys:exit sys:maxsize
    math:tau math:sqrt json:dumps json:JSONDecoder textwrap:dedent collections:OrderedDict collections.abc:Mapping
    decimal:Decimal pathlib:PurePath logging:getLogger operator:add functools:partial string:Template abc:ABC
    numpy:array numpy:zeros numpy:float64 numpy.random:default_rng torch.nn:Linear torch.nn:Module torch.nn:ReLU
    torch.nn:functional torch:float32 flwr.serverapp:Grid flwr.serverapp:ServerApp flwr.serverapp.strategy:Strategy
    flwr.serverapp.strategy:FedAvg strategies.base:RoundStrategy fedlearn.config:RunConfig fedlearn.models:MODELS
    fedlearn.plugins.registry:Registry fedlearn.core.state:layout_of os.path:join os:sep types:SimpleNamespace
    .x:y ..:z :  a: :b os: os:path. no_such_module_at_all:thing json:no_such_attribute a:b:c fedlearn:__doc__
"""
FOREIGN = _HARMLESS.split()
HELPS = ("--help", "--help-all")
TEXTS = (
    "", " ", "x", "None", "nan", "inf", "-inf", "1e400", "-1", "0", "1", "1.5", "1e-320", "1_000", "٣", "true", "null",
    "9" * 5000, "-" + "9" * 4400, "0x" + "f" * 9000, "[]", "{}", "[1, 2]", '{a = "b"}', "[" * 3000,
    "[" * 200 + "]" * 200, "a" * 5000, "é" * 80, "\x1b]0;owned\x07", "\x1b[2J", "a\nb", "\u202egnp", "\udcff",
    '"\\u0000"', '"a\\u0000b"', "/dev/null", "/proc/1/mem", "/no/such/place", "/" * 5000, "../" * 50, "~nobody/x",
    "*", "%s%n", "{0}", "[red]", "[/red]", "'", '"', "=", "a=b", ":", ",", "a,b", "2026-11-22", "--help", "-", "--",
    "FedAvg", "CIFAR10", "topk:0.1", "drop:" + "9" * 5000, "quantize:0x10", "drop:nan", "drop,drop", "residual",
    "digits:", "hub:", "hub:?", "x.toml", "x.csv", "object:0", "0.0.0.0:99999999", "[::1]:x", "é" * 80 + ":1",
    "1:" + "9" * 5000, "localhost:",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a line ended."""

    arguments: list[str]
    code: object
    out: str
    err: str
    wrong: str = ""


def registries() -> dict[str, list[str]]:
    """Return the names in every registry of plugins, by the setting that they are for."""
    import client.app
    import server.app

    assert client.app and server.app
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] in OURS]
    found: dict[str, list[str]] = {}
    for each in (value for module in modules for value in vars(module).values() if type(value) is Registry):
        found.setdefault(each.setting, []).extend(each)
        found[each.setting].extend(each[name] for name in each)
    return {setting: sorted({*names}) for setting, names in found.items()}


def options_of(command: str) -> list[tuple[str, bool]]:
    """Return the long options of a command, and whether each takes a value."""
    parameters = typer.main.get_command(cli.app).commands[command].params  # type: ignore[attr-defined]
    named = [each for each in parameters if each.param_type_name == "option"]
    return [(each.opts[0], not each.is_flag) for each in named]


class Lines:
    """Draws command lines."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.names = registries()
        self.plugins = [name for names in self.names.values() for name in names]
        self.settings = setting_names()
        self.commands = ["simulate", "report", "compare", "settings", "dashboard", "submit"]
        self.options = {command: options_of(command) for command in self.commands}

    def value(self, setting: str = "") -> str:
        """Return a value of any kind; of the right one now and then."""
        kind = self.rng.random()
        if setting in self.names and kind < 0.5:
            if self.rng.random() < 0.6:
                return self.rng.choice(FOREIGN)
            return self.rng.choice(self.names[setting])
        if kind < 0.45:
            return self.rng.choice(FOREIGN)
        if kind < 0.6:
            return self.rng.choice(self.plugins)
        if kind < 0.7:
            mixed = [self.rng.choice(TEXTS), self.rng.choice(FOREIGN), self.rng.choice(self.plugins)]
            return self.rng.choice([":", ",", ".", ""]).join(self.rng.sample(mixed, 2))
        return self.rng.choice(TEXTS)

    def setting(self) -> str:
        """Return the name of a setting; now and then one that is none."""
        name = self.rng.choice(self.settings)
        kind = self.rng.random()
        if kind < 0.3:
            return self.rng.choice([name for name in self.settings if name in self.names])
        if kind < 0.34:
            return self.rng.choice(TEXTS)
        if kind < 0.4:
            return name + self.rng.choice([".x", ".options.x", "s", ""]) + self.rng.choice(["", "." * 3, "é", "\x1b"])
        if kind < 0.43:
            return name.partition(".")[0]
        return name

    def config_file(self) -> str:
        """Return the path of a file of settings, written here."""
        path = self.folder / "config.toml"
        lines = []
        for _ in range(self.rng.randint(1, 3)):
            name, value = self.setting(), self.value()
            lines.append(f"{name} = {value if self.rng.random() < 0.5 else json.dumps(value)}")
        path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
        return str(path)

    def simulate(self) -> list[str]:
        """Return a line of the main command: a few settings by flag, --set or file."""
        line = ["simulate"]
        flags = [(name, takes) for name, takes in self.options["simulate"] if name not in (*HELPS, "--log")]
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            kind = self.rng.random()
            if kind < 0.55:
                name = self.setting()
                line += ["--set", f"{name}={self.value(name)}"]
            elif kind < 0.65:
                line += ["--config", self.config_file() if self.rng.random() < 0.8 else self.value()]
            else:
                name, takes = self.rng.choice(flags)
                line += [name, self.value()] if takes else [name]
        if self.rng.random() < 0.1:
            line += ["--log", self.value("--log")]
        return line

    def other(self) -> list[str]:
        """Return a line of another command that neither serves nor sends anything."""
        command = self.rng.choice([name for name in self.commands if name != "simulate"])
        line = [command]
        for name, takes in self.options[command]:
            if self.rng.random() < 0.4 and name not in HELPS:
                line += [name, self.value()] if takes else [name]
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            line.append(self.value())
        return line if self.rng.random() < 0.95 else [self.value(), *line]

    def drawn(self) -> list[str]:
        """Return one line, as a shell can hand it over: without NUL."""
        line = self.simulate() if self.rng.random() < 0.8 else self.other()
        return [argument.replace("\0", "") for argument in line]


class Interrupted(BaseException):
    """A line took too long."""


@contextlib.contextmanager
def prepared(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no line train, serve or send anything."""
    import fedlearn.report.dashboard
    import server.schedules.synchronous as synchronous
    from fedlearn.config import load
    from fedlearn.engine import deployment
    from fedlearn.engine.deployment import job

    assert deployment
    small = {"engine.name": "inline", "data.dataset": "digits", "clients": 4}
    defaults = {name: value for name, value in to_flower(RunConfig()).items() if name in small}
    assert defaults.keys() == small.keys()
    real = load.config_from

    def stop(*_: Any, **__: Any) -> None:
        raise RunFailed(STOPPED)

    def small_config(flat: Any, *, source: str = "") -> Any:
        return real({**small, **flat}, source=source)

    import fedlearn.commands.shared as shared
    from fedlearn.models import presets

    patch.setattr(synchronous.Synchronous, "run", stop)
    patch.setattr(presets, "config_from", small_config)
    patch.setattr(shared, "config_from", small_config)
    patch.setattr(fedlearn.report.dashboard, "serve", stop)
    patch.setattr(job.Job, "run", stop)
    patch.setattr(job.Job, "let_in", stop)
    patch.setenv("OMP_NUM_THREADS", "1")
    yield


def ended(arguments: list[str], folder: Path) -> Ended:
    """Run one line in an empty folder, and judge it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    before = Path.cwd()
    os.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    wrong = ""
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main(arguments)
    except SystemExit as exit_:
        code = exit_.code or 0
    except BaseException as error:
        wrong = f"traceback: {type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
        os.chdir(before)
    said = err.getvalue()
    if not wrong:
        wrong = _judged(code, out.getvalue(), said, folder)
    return Ended(arguments, code, out.getvalue(), said, wrong)


def _judged(code: object, out: str, err: str, folder: Path) -> str:
    if code not in CODES:
        return f"exit code {code!r}"
    if "Traceback" in err + out:
        return "a traceback was printed"
    errors = [line for line in err.splitlines() if not line.startswith(("note: ", "WARNING "))]
    if code in (1, 2) and (len(errors) != 1 or not errors[0].startswith("error: ")):
        return f"{len(errors)} lines of error"
    if any(not (letter.isprintable() or letter == "\n") for letter in err + out.replace("\t", "")):
        return "something that is not printable was printed"
    if max((len(line) for line in errors), default=0) > 3000:
        return "a line without an end"
    left = [path for path in folder.rglob("*") if path.name != "report"]
    if code == 2 and left:
        return f"left {left[0].relative_to(folder)}"
    return ""


def attacked(lines: int, seed: int, show: bool = False) -> list[Ended]:
    """Run so many lines; return those that ended as none may."""
    bad: list[Ended] = []
    codes: Counter[object] = Counter()
    began = time.monotonic()

    def late(*_: object) -> None:
        raise Interrupted(f"no end within {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch, prepared(patch):
        draws = Lines(seed, Path(place))
        for _ in itertools.repeat(None, lines):
            each = ended(draws.drawn(), Path(place) / "here")
            codes[each.code] += 1
            if each.wrong:
                bad.append(each)
                if show:
                    shown = " ".join(ascii(argument)[:120] for argument in each.arguments)
                    print(f"{each.wrong}\n    {shown}\n    {each.err[-300:]!r}", file=sys.__stdout__, flush=True)
    signal.signal(signal.SIGALRM, before)
    if show:
        tracebacks = sum("traceback" in each.wrong for each in bad)
        ends = ", ".join(f"{count} with {code}" for code, count in sorted(codes.items(), key=str))
        seconds = time.monotonic() - began
        wrong = f"tracebacks {tracebacks}, others {len(bad) - tracebacks}"
        print(f"{lines} lines, seed {seed}: {ends}; {wrong}; {seconds:.0f} s")
    return bad


def main() -> None:
    """Attack, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(1 if attacked(given.lines, given.seed, show=True) else 0)


if __name__ == "__main__":
    main()
