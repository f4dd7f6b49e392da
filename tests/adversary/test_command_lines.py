"""Every value of any length or kind on the command line, in a file, in a reference ends in one line. F3.

FEDLEARN_LINES sets how many lines are drawn; `python -m tests.adversary.command_lines` draws thousands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from fedlearn.cli import main
from tests.adversary import command_lines
from tests.adversary.command_lines import FOREIGN, attacked, ended, prepared

LINES = int(os.environ.get("FEDLEARN_LINES", "40"))


@pytest.mark.long
def test_f3_lines_drawn_at_random_end_in_one_line_and_leave_nothing():
    bad = attacked(LINES, seed=1)
    assert [(each.wrong, each.arguments, each.err[-300:]) for each in bad] == []


@pytest.fixture
def line(tmp_path, monkeypatch):
    """Run a line of `simulate` as the fuzzer does; return its exit code and its one line."""
    with prepared(monkeypatch):
        yield lambda *arguments: ended(["simulate", *arguments], tmp_path / "here")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "seed=" + "9" * 5000],
        ["--set", "seed=0x" + "f" * 9000],
        ["--set", "model.name=" + "[" * 3000],
        ["--set", "model.name=[1, 2]"],
        ["--set", 'model.name={a = "b:c"}'],
        ["--set", 'out="a\\u0000b"'],
        ["--set", 'data.dir="a\\u0000b"'],
        ["--out", "a" * 5000],
        ["--out", "\udcff"],
        ["--resume", "a" * 5000],
        ["--config", "a" * 5000],
        ["--config", "/dev/zero"],
        ["--dashboard", "9" * 5000],
        ["--dashboard", "é" * 80 + ":1"],
        ["--strategy", ".x:y"],
        ["--strategy", "builtins:exit"],
        ["--engine", "math:tau"],
        ["--set", "rounds.schedule=builtins:str"],
        ["--compression", "os:sep"],
        ["--learning-rate", "1"],
        ["--set", "\x1b]0;owned\x07=1"],
        ["extra"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40].encode("ascii", "replace").decode(),
)
def test_f3_line_is_refused_in_one_line_and_leaves_nothing(line, arguments):
    end = line(*arguments)
    assert (end.wrong, end.code) == ("", 2), end.err


@pytest.mark.parametrize(
    "setting", ["rounds.schedule", "strategy.name", "engine.name", "compression.codec", "model.name"]
)
def test_f3_object_of_the_wrong_kind_is_named(line, setting):
    for reference in ("math:tau", "builtins:NotImplemented", "json:no_such_attribute", "logging:getLogger", ":"):
        assert reference in FOREIGN
        end = line("--set", f"{setting}={reference}")
        assert end.wrong == "" and end.code in (1, 2) and setting in end.err, (reference, end)


def test_fuzzer_finds_settings_flags_and_plugins_in_their_tables(tmp_path):
    lines = command_lines.Lines(1, tmp_path)
    assert {"training.lr", "rounds.schedule", "engine.workers"} <= {*lines.settings}
    assert {"compression.codec", "strategy.name", "engine.name", "training.learner"} <= lines.names.keys()
    assert ("--keep-ratio", True) in lines.options["simulate"]


def test_fuzzer_tells_a_traceback_from_a_line(tmp_path, monkeypatch):
    def bug(**_):
        raise TypeError("a bug")

    monkeypatch.setattr(command_lines.cli, "app", bug)
    assert ended(["simulate"], tmp_path / "here").wrong == "traceback: TypeError: a bug"


def test_error_is_one_printable_line_even_of_a_worker(capsys, monkeypatch):
    from fedlearn import cli
    from fedlearn.core.errors import RunFailed

    def failed(**_):
        raise RunFailed("a worker could not do its work:\n  File x\n\x1b[2JTypeError: no")

    monkeypatch.setattr(cli, "app", failed)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err == "error: a worker could not do its work: ?[2JTypeError: no\n"


@pytest.mark.parametrize("seconds", [0.15, 0.4])
def test_ctrl_c_while_everything_is_imported_is_one_line(seconds, tmp_path):
    """Python itself has to have begun; a machine that is busy may not have got so far."""
    command = [sys.executable, "-m", "fedlearn.simulate", "--dataset", "digits", "--clients", "2", "--rounds", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # in the background it is ignored
    )
    time.sleep(seconds)  # the moment is what is tested
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    if process.returncode != 130 and "in main" not in err:
        pytest.skip("Python had not come to our main")
    assert process.returncode == 130 and "Traceback" not in err
    assert err.splitlines()[-1].startswith("interrupted")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--set", "training.learning_rate=1"], "did you mean training.lr?"),
        (["--set", "lr=1"], "did you mean training.lr?"),
        (["--set", "rounds=3"], "did you mean rounds.total?"),
        (["--strategy", "FedAvg"], "did you mean fedavg?"),
        (["--dataset", "CIFAR10"], "did you mean cifar10?"),
        (["--model", "CNN"], "did you mean cnn?"),
        (["--compression", "topk:0.1"], "did you mean top-k?"),
        (["--round", "3"], "--rounds"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_near_miss_is_told_what_was_meant(line, arguments, hint):
    end = line(*arguments)
    assert end.code == 2 and hint in end.err, end.err


def test_version_is_told(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out.startswith("fedlearn ")
