"""The commands of README.md, each run as it is printed, with fewer nodes and rounds where it would take long."""

from __future__ import annotations

import os
import re
import shlex
import shutil

import numpy as np
import pytest
from PIL import Image

import fedlearn
from tests.docs.pages import ROOT
from tests.end_to_end.conftest import end_of, some_slow

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = [shlex.split(line, comments=True) for line in re.findall(r"^fedlearn (.*)$", TEXT, flags=re.MULTILINE)]
CHEAP = ("--clients", "10", "--cohort", "4", "--rounds", "1", "--local-epochs", "1")
LONG = [" ".join(each) for each in LINES if each[0] in ("run", "sweep") or "california" in each]
STORED = "runs/20261121-101500"
MODULE = """
from torch import nn

class MyModule(nn.Sequential):
    def __init__(self, spec):
        height, width, channels = spec.shape
        super().__init__(nn.Flatten(), nn.Linear(height * width * channels, spec.classes))
"""


def cheaper(words):
    """Return a command that says the same of fewer nodes; what it leaves to its defaults is small, too."""
    if words[0] == "sweep":
        return [
            *words,
            *("--set", "clients=10"),
            "--set",
            "rounds.total=1",
            "--set",
            "data.dataset=digits",
            "--out",
            "sweep",
        ]
    if words[0] != "simulate" or "--resume" in words:
        return words
    return [*words, *(() if "--dataset" in words else ("--dataset", "digits")), *CHEAP]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make a folder that holds what the lines name: a run, pictures, a package, a Flower App."""
    place = tmp_path_factory.mktemp("readme")
    numbers = np.random.default_rng(1)
    for name in (f"pictures/{kind}/{number}.png" for kind in ("cat", "dog") for number in range(20)):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 256, (8, 8, 3), np.uint8)).save(place / name)
    (place / "mypackage").mkdir()
    (place / "mypackage/models.py").write_text(MODULE)
    shutil.copytree(ROOT / "docs/howto/quickstart_app", place / "APP_FOLDER")
    fedlearn.run(clients=4, data="digits", model="linear", rounds=1, progress=False, out=place / STORED)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("words", some_slow({" ".join(each): each for each in LINES}, (), long=LONG))
def test_a_command_of_the_readme_does_what_it_says(words, place, monkeypatch):
    if {"california", "adult"} & set(words) and "FEDLEARN_DATA" not in os.environ:
        pytest.skip("FEDLEARN_DATA is not set")
    monkeypatch.chdir(place)
    assert end_of(*cheaper(words)) == 0


def test_the_python_call_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(code.replace("rounds=5", "rounds=1"), {})  # the block of our own README


def test_every_line_of_a_shell_block_is_of_a_kind_that_is_run():
    blocks = re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line]
    others = [line for line in lines if not line.startswith("fedlearn ")]
    ci = [line.split() for line in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()]
    made = {word for words in ci if words[:1] == ["make"] for word in words}
    for line in others:
        if line.startswith("make "):
            assert line.split()[1] in made | {"simulate", "test-quick", "test-all"}, line
        else:
            assert line.startswith(("pip install '.[all]'", "CLIENTS=10 docker compose up")), line
