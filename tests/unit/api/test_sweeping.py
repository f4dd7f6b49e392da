"""`fedlearn.sweep` is ``fedlearn sweep``: its folder, its bytes; and it takes objects."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import fedlearn
from fedlearn.cli import main
from fedlearn.core.errors import UsageError

SMALL = {"clients": 3, "rounds": 1, "engine": "inline"}
FLAGS = ["--clients", "3", "--rounds", "1", "--engine", "inline", "--dataset", "digits", "--model", "linear"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_call_has_the_folder_and_the_bytes_of_the_command(tmp_path, capsys):
    found = fedlearn.sweep(
        vary={"lr": [0.1, 0.05]},
        seeds=[1],
        data="digits",
        model="linear",
        settings={"training.momentum": 0.5},
        **SMALL,
    )
    before = {path.name: path.read_bytes() for path in found.folder.glob("*.*")}
    given = ["--vary", "training.lr=0.1,0.05", "--seeds", "1", "--set", "training.momentum=0.5"]
    with pytest.raises(SystemExit) as end:
        main(["sweep", *FLAGS, *given])
    assert end.value.code == 0 and "2 of 2 runs were there already" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in found.folder.glob("*.*")} == before
    assert [each.name for each in (tmp_path / "runs").iterdir()] == [found.folder.name]
    assert list(found.points["training.lr"]) == [0.1, 0.05] and len(found.runs) == 2
    assert found.best["training.lr"] in (0.1, 0.05) and found.page.is_file()
    assert repr(found) == f"<Sweep {found.folder}: 2 of 2 runs completed>" and "<table" in found._repr_html_()


def test_data_and_values_may_be_objects(capsys):
    class Net(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Linear(4, 2))

    X = np.random.default_rng(1).random((60, 4), np.float32)
    found = fedlearn.sweep(vary={"model": ["linear", Net]}, data=(X, np.arange(60) % 2), progress=False, **SMALL)
    assert list(found.runs["status"]) == ["completed"] * 2 and not capsys.readouterr().out
    assert len(fedlearn.runs(found.folder)) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"vary": {"lr": 0.1}}, "vary: lr = 0.1: give a list of values"),
        ({"vary": {"lrr": [0.1]}}, "lrr = 0.1: there is no such setting"),
        ({}, "no setting varies"),
        ({"vary": {"lr": [0.1]}, "keep_ratio": 2}, "keep_ratio = 2: expected a number above 0 and at most 1"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_call(arguments, said):
    with pytest.raises(UsageError, match=said):
        fedlearn.sweep(data="digits", **SMALL, **arguments)
