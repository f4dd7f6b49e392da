"""Slips of every kind: one line that says what, where and what to do, in the user's own spelling."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedlearn
from fedlearn.cli import main
from fedlearn.core.errors import FedlearnError

LIBRARIES = re.compile(
    r"Input should|Value error|valid (integer|number)|Expecting|Arrow(?!Invalid\))|Invalid value|No such (op|com)|"
    r"Missing|unexpected|No module named|has no attribute|unable to"
)  # words of pydantic, json, tomllib, pyarrow, click and Python
FILES = {
    "bad.csv": "a,b,y\n1,2,0\n3,4,1\n", "ragged.csv": "a,b,y\n1,2,0\n3,4\n", "semicolon.csv": "a;b;y\n1;2;0\n",
    "empty.csv": "", "text.parquet": "a,b\n", "damaged.npz": "no", "syntax.toml": "[training]\nlr 0.1\n",
    "open.toml": "clients = 3\nrounds = [\n\n", "wrong.toml": "[training]\nlearning_rate = 0.1\n",
    "x.json": '{"clients": 3,}', "x.yaml": "clients: 3\n a: [", "own.py": "import nowhere_to_be_found\n",
    "policy.toml": "largest_epsilon = 1\nhours = 3\n",
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")


def checked(said: str, begins: str, does: str) -> None:
    assert said.startswith(begins) and does in said, said
    assert said.count("\n") == 0 and not LIBRARIES.search(said), said
    assert str(Path.cwd()) not in said, said


TARGET = "--set data.options.target=y"
COMMANDS = {
    "simulate --clients ten": ("--clients ten:", "expected a whole number from 1 to 10,000,000"),
    "simulate --keep-ratio 1.5": ("--keep-ratio 1.5:", "expected a number above 0 and at most 1"),
    "simulate --lr 0,1": ("--lr 0,1:", "expected a number above 0"),
    "simulate --set clients=true": ("clients = True:", "write a number"),
    "simulate --set compression.send=weigths": ("compression.send = 'weigths':", "did you mean weights?"),
    "simulate --set strategy=fedavg": ("strategy = 'fedavg':", "did you mean strategy.name?"),
    "simulate --set strategy.options=x": ("strategy.options = 'x':", 'write it as {"NAME": VALUE}'),
    "simulate --learning-rate 0.1": ("--learning-rate:", "did you mean --lr?"),
    "simulate --momentum 0.1": ("--momentum:", "did you mean --set training.momentum=VALUE?"),
    "simulate --clients": ("--clients:", "write a value behind it"),
    "simulate digits": ("digits:", "values are given by flags"),
    "simulat": ("simulat:", "did you mean simulate?"),
    "keys --clients=x": ("--clients=x:", "expected a whole number of at least 0"),
    "keys": ("fedlearn keys needs --clients N:", "number of"),
    "simulate --dataset digits --strategy fedaveg": ("--strategy fedaveg:", "did you mean fedavg?"),
    "simulate --dataset mnist": ("--dataset mnist:", "hub:NAME"),
    "simulate --dataset digits --devices devices.toml": ("--devices devices.toml:", "or one of phones"),
    "simulate --set nope=1": ("nope = 1: there is no such setting;", "fedlearn settings lists them"),
    "runs --where statee=failed": ("--where statee: there is no such setting;", "did you mean state?"),
    "runs --sort acc": ("--sort acc: there is no such setting;", "name, state, rounds, score, upload, seconds"),
    "submit --superlink h:1 --root-certificates ca.crt": ("--root-certificates ca.crt:", "that fedlearn keys has made"),
    "simulate --dataset digits --compression topk:0.1": ("--compression topk:0.1: stage 'topk':", "mean top-k?"),
    "simulate --dataset digits --model math:flor": ("--model math:flor: math has no flor", "did you mean floor?"),
    "simulate --dataset digits --model nowhere:X": ("--model nowhere:X: there is no module nowhere", "FILE.py:X"),
    "simulate --dataset digits --model own.py:X": ("--model own.py:X: own.py imports nowhere_to", "install it"),
    "simulate --config syntax.toml": ("--config syntax.toml: not valid TOML: line 2, `lr 0.1`:", "NAME = VALUE"),
    "simulate --config open.toml": ("--config open.toml: not valid TOML: line 2, `rounds = [`:", "NAME = VALUE"),
    "simulate --config wrong.toml": ("training.learning_rate = 0.1:", "did you mean training.lr? (in wrong.toml)"),
    "simulate --config x.json": ("--config x.json: not valid JSON: line 1, `{\"clients\": 3,}`:", "double quotes"),
    "simulate --config x.yaml": ("--config x.yaml: not valid YAML: line 2", "NAME: VALUE"),
    "simulate --config no.toml": ("--config no.toml:", "name a file of settings"),
    "sweep syntax.toml": ("syntax.toml: not valid TOML: line 2, `lr 0.1`:", "NAME = VALUE"),
    "client --superlink h:1 --ledger L --policy policy.toml": ("policy.toml: hours = 3: expected text", "form"),
    "simulate --dataset bad.csv": ("bad.csv: which column is learned?", "its columns are a, b, y"),
    f"simulate --dataset ragged.csv {TARGET}": ("ragged.csv, line 3: it has 2 cells, the header has 3:", "mend"),
    f"simulate --dataset empty.csv {TARGET}": ("empty.csv:", "write a header and rows"),
    f"simulate --dataset text.parquet {TARGET}": ("text.parquet cannot be read: it is damaged", "FEDLEARN_TRACEBACK"),
    "simulate --dataset damaged.npz": ("damaged.npz", "FEDLEARN_TRACEBACK"),
    "simulate --dataset semicolon.csv": ("semicolon.csv cannot be read", "data.options.delimiter=';'"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_slip_on_the_command_line(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command.split())
    said = capsys.readouterr().err
    assert end.value.code == 2
    checked(said.removeprefix("error: ").removesuffix("\n"), *COMMANDS[command])


def test_a_slip_in_the_environment_names_the_variable(capsys, monkeypatch):
    monkeypatch.setenv("FEDLEARN__TRAINING__LR", "fast")
    with pytest.raises(SystemExit):
        main(["simulate"])
    assert "(in FEDLEARN__TRAINING__LR)" in capsys.readouterr().err


X = np.arange(40, dtype=np.float32).reshape(10, 4)
CALLS = {
    "ten": ({"clients": "ten"}, "clients = 'ten': expected a whole number from", "1"),
    "fast": ({"lr": "fast"}, "lr = 'fast': expected a number above", "0"),
    "strategy": ({"strategy": "fedaveg"}, "strategy = 'fedaveg': choose one of", "did you mean fedavg?"),
    "file": ({"data": "no.csv"}, "data = 'no.csv': there is no such file", "give the path"),
    "target": ({"data": "bad.csv"}, "bad.csv: which", 'settings={"data.options.target": "COLUMN"}'),
    "lengths": ({"data": (X, X[:5, 0])}, "", "5"),
    "column": ({"data": (pd.DataFrame(X, columns=[*"abcd"]), "y")}, "", "'a', 'b', 'c', 'd'"),
    "setting": ({"settings": {"training.momentum": "x"}}, "training.momentum = 'x': expected a number", "below 1"),
    "resume": ({"resume": "nowhere"}, "", "nowhere"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_slip_in_a_call(call):
    given, begins, does = CALLS[call]
    with pytest.raises(FedlearnError) as error:
        fedlearn.run(**{"data": "digits", "engine": "inline", "progress": False, **given})
    checked(str(error.value), begins, does)
    assert "--" not in str(error.value)
