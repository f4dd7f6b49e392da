"""A user's own client.py, server.py and strategies.py lie in the current folder: theirs stay theirs, ours are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import import_module

import pytest

import fedlearn
from tests.end_to_end.conftest import ROOT

pytestmark = pytest.mark.slow

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
""",
}


@pytest.fixture
def in_the_folder(tmp_path):
    for name, text in OWN.items():
        (tmp_path / name).write_text(text)

    def in_the_folder(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )  # fmt: skip

    return in_the_folder


@pytest.mark.long
def test_command_and_call_make_the_same_run_among_files_of_these_names(in_the_folder):
    called = in_the_folder("script.py")
    assert (called.returncode, called.stderr) == (0, "")
    flags = [
        "--clients",
        "4",
        "--dataset",
        "digits",
        "--rounds",
        "1",
        "--local-epochs",
        "1",
        "--workers",
        "2",
        "--json",
    ]
    command = in_the_folder("-m", "fedlearn.simulate", *flags, "--strategy", "strategies.py:Halved")
    assert (command.returncode, command.stderr) == (0, "")
    assert json.loads(command.stdout)["model_sha256"] == called.stdout.strip()


@pytest.mark.long
def test_name_that_is_ours_says_how_to_name_the_file(in_the_folder):
    refused = in_the_folder("-m", "fedlearn.simulate", "--dataset", "digits", "--strategy", "strategies:Halved")
    assert refused.returncode == 2
    assert "your own strategies.py is named strategies.py:Halved" in refused.stderr


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
    shadowed = in_the_folder("-c", "import fedlearn.server.gate, client; print(client.NAME)")
    assert (shadowed.stdout, shadowed.stderr) == ("mine\n", "")


def test_importing_fedlearn_takes_no_time(in_the_folder):
    begin = time.perf_counter()
    in_the_folder("-c", "pass")
    nothing = time.perf_counter() - begin
    heavy = (
        "import sys, fedlearn; print(sorted({'torch', 'numpy', 'flwr', 'pydantic', 'rich', 'typer'} & {*sys.modules}))"
    )
    begin = time.perf_counter()
    imported = in_the_folder("-c", heavy)
    assert imported.stdout == "[]\n"
    assert time.perf_counter() - begin < nothing + 1.0  # 0.02 s, on a machine that does nothing else
