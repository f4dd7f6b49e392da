"""A user's own client.py, server.py and strategies.py lie in the current folder: theirs stay theirs, ours are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest

import fedlearn
from tests.end_to_end.conftest import ROOT, Run, end_of

OWN = {
    "server.py": 'raise SystemExit("the server of the user was imported")',
    "client.py": "NAME = 'mine'",
    "strategies.py": """
import numpy as np
from fedlearn.strategies.fedavg import FedAvg
def half(array):
    return array * np.float32(0.5)
class Halved(FedAvg):
    def next_state(self, turn):
        step = super().next_state(turn)
        return type(step)({name: half(array) for name, array in step.state.items()}, step.measured)
""",
    "script.py": """
import client, strategies
import fedlearn
given = {"clients": 4, "data": "digits", "rounds": 1, "local_epochs": 1, "workers": 2, "progress": False}
run = fedlearn.run(**given, strategy=strategies.Halved)
import client as again
from strategies import Halved
assert again is client and again.NAME == "mine" and Halved is strategies.Halved
print(run.sha256)
from fedlearn.cli import main
main(["simulate", "--config", str(run.folder / "settings.toml"), "--strategy", "strategies.py:Halved", "--quiet",
      "--out", "again"])
""",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in OWN.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def in_the_folder(folder):
    def in_the_folder(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )  # fmt: skip

    return in_the_folder


@pytest.mark.long
def test_call_and_command_make_the_same_run_among_files_of_these_names(in_the_folder, folder):
    called = in_the_folder("script.py")
    assert (called.returncode, called.stderr) == (0, "")
    assert Run(folder / "again").sha == called.stdout.strip()


@pytest.mark.long
def test_a_command_of_its_own_makes_the_same_run_among_files_of_these_names(in_the_folder):
    called = in_the_folder("script.py")
    flags = "--clients 4 --dataset digits --rounds 1 --local-epochs 1 --workers 2 --json"
    command = in_the_folder("-m", "fedlearn.simulate", *flags.split(), "--strategy", "strategies.py:Halved")
    assert (command.returncode, command.stderr) == (0, "")
    assert json.loads(command.stdout)["model_sha256"] == called.stdout.strip()


def test_name_that_is_ours_says_how_to_name_the_file(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    given = ["--dataset", "digits", "--clients", "4", "--engine", "inline", "--strategy", "strategies:Halved"]
    assert end_of("simulate", *given) == 2
    assert "your own strategies.py is named strategies.py:Halved" in capfd.readouterr().err


def test_ours_are_the_same_modules_below_fedlearn(in_the_folder):
    from fedlearn.client.learners.sgd import SGD

    import strategies
    from client.learners import sgd

    assert SGD is sgd.SGD
    assert fedlearn.strategies is strategies
    assert strategies.__spec__.name == "strategies"
    with pytest.raises(ModuleNotFoundError, match=r"fedlearn\.strategies\.nothing"):
        import_module("fedlearn.strategies.nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fedlearn.nothing  # noqa: B018
    shadowed = in_the_folder("-c", "import fedlearn.server.gate.gate, client; print(client.NAME)")
    assert (shadowed.stdout, shadowed.stderr) == ("mine\n", "")


def test_importing_fedlearn_imports_nothing_but_python_itself(in_the_folder):
    program = "import sys; before = {*sys.modules}; import fedlearn; print(*{*sys.modules} - before)"
    imported = {name.partition(".")[0] for name in in_the_folder("-c", program).stdout.split()}
    assert "fedlearn" in imported
    assert imported - sys.stdlib_module_names == {"fedlearn"}
