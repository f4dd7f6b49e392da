"""A run is verified: every change of its files, data and code is named, and a sound run has none."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import fedlearn
from fedlearn.core.errors import UsageError
from fedlearn.plugins.own_code import own_code

from .conftest import end_of

CHEAP = {"clients": 3, "rounds": 2, "cohort": 0, "engine": "inline", "progress": False}
NET = """
from torch import nn
from layers import between

def net():
    return nn.Sequential(nn.Linear(2, 4), between(), nn.Linear(4, 2))
"""
LAYERS = "from torch import nn\nbetween = nn.ReLU\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A folder with code and data of a user, and a run of them."""
    place = tmp_path_factory.mktemp("lab")
    (place / "net_of_a_lab.py").write_text(NET)
    (place / "layers.py").write_text(LAYERS)
    rows = np.random.default_rng(1).random((60, 2))
    frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "y": np.where(rows[:, 0] > 0.5, "yes", "no")})
    frame.to_csv(place / "rows.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        options = {"data.options": {"target": "y"}}
        data, run = place / "rows.csv", place / "run"
        fedlearn.run(**CHEAP, data=data, settings=options, model="net_of_a_lab:net", out=run).report(figures="svg")
        yield place
    for name in ("net_of_a_lab", "layers"):
        sys.modules.pop(name, None)


@pytest.fixture
def said(lab, tmp_path, capsys):
    """Copy the laboratory's run, and return what verify says of it once something was changed."""

    def said(*arguments, change=lambda run: None):
        run = shutil.copytree(lab / "run", tmp_path / "run")
        change(run)
        code = end_of("verify", str(run), "--json", *arguments)
        found = json.loads(capsys.readouterr().out)
        assert code == (0 if found["sound"] else 1)
        return found

    return said


def test_a_sound_run_is_sound_and_comes_out_again(said, lab):
    found = said("--again")
    assert found["sound"] and not found["wrong"] and not found["notes"]
    assert found["again"] == fedlearn.load(lab / "run").sha256


def replaced(name, pattern, by):
    def change(run):
        text = (run / name).read_text()
        changed = re.sub(pattern, by, text, count=1)
        assert changed != text
        (run / name).write_text(changed)

    return change


CHANGES = {
    "number of a table": ("metrics.csv", replaced("metrics.csv", r"(\n1,.*,)([\d.]+)", r"\g<1>9.75")),
    "number of the summary": ("summary.json", replaced("summary.json", r'"accuracy": [\d.]+', '"accuracy": 0.999')),
    "setting": ("settings.toml", replaced("settings.toml", "batch_size = 100", "batch_size = 10")),
    "line of the log": ("events.jsonl", replaced("events.jsonl", r"\{.*\n", "")),
    "table of the report": ("report/tables/rounds.csv", replaced("report/tables/rounds.csv", r"\d\.\d+", "0.5")),
    "version": ("environment.json", replaced("environment.json", r'"torch": "[\d.]+', '"torch": "1.0')),
    "model": ("model.safetensors", lambda run: (run / "model.safetensors").write_bytes(b"no")),
    "file that is gone": ("nodes.csv: it is missing", lambda run: (run / "nodes.csv").unlink()),
    "file that came": ("classes.json|statistics.json", lambda run: (run / "statistics.json").write_text("{}")),
    "history": ("history.jsonl", replaced("checkpoint/history.jsonl", r"\d", "7")),
    "manifest": ("manifest.json", replaced("manifest.json", r'"files": \{\n  "', '"files": {\n  "x')),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_every_change_is_named(said, kind):
    named, change = CHANGES[kind]
    found = said(change=change)
    assert any(re.search(named, line) for line in found["wrong"]), found


def test_a_number_of_the_table_is_named_even_without_a_manifest(said):
    def change(run):
        (run / "manifest.json").unlink()
        replaced("metrics.csv", r"(\n1,.*,)([\d.]+)", r"\g<1>9.75")(run)

    found = said(change=change)
    assert re.search(r"metrics.csv: round 1, \w+: 9.75 in place of", found["wrong"][0])
    assert "there is none" in found["notes"][0]


def test_a_row_of_data_and_another_version_are_named(said, lab, monkeypatch):
    text = (lab / "rows.csv").read_text()
    (lab / "rows.csv").write_text(text.replace("yes", "no", 1))
    monkeypatch.setattr("fedlearn.runs.environment._version", lambda name: "0.0")
    try:
        wrong = said()["wrong"]
    finally:
        (lab / "rows.csv").write_text(text)
    assert any(line.startswith("data: ") for line in wrong)
    assert any(re.fullmatch(r"torch: the run had version .*, here is 0.0", line) for line in wrong)


def test_a_resume_with_changed_code_is_refused_and_goes_on_where_it_is_accepted(lab, tmp_path, said, monkeypatch):
    run = shutil.copytree(lab / "run", tmp_path / "resumed")
    (lab / "layers.py").write_text(LAYERS.replace("ReLU", "Tanh"))
    try:
        assert said()["wrong"] == ["layers.py: this code was changed since the run"]
        with pytest.raises(UsageError, match=r"^layers.py: it has changed since .*--accept-code"):
            fedlearn.run(resume=run, rounds=3, progress=False)
        assert fedlearn.load(run).summary["rounds"] == 2
        resumed = fedlearn.run(resume=run, rounds=3, progress=False, accept_code=True)
    finally:
        (lab / "layers.py").write_text(LAYERS)
    assert resumed.summary["rounds"] == 3
    assert resumed.summary["notices"] == ["code was changed, and accepted: layers.py after round 2"]


def test_own_code_is_what_a_module_imports_beside_it_and_no_library(tmp_path, monkeypatch):
    package = tmp_path / "a_package"
    (package / "deep").mkdir(parents=True)
    for name, text in {
        "__init__.py": "", "deep/__init__.py": "", "deep/net.py": "import torch\nfrom ..loss import loss\n",
        "loss.py": "from a_package import far\n", "far.py": "", "unused.py": "",
    }.items():  # fmt: skip
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    found = own_code(["a_package.deep.net:Net", "drop:0.1", "torch.nn:Linear", "client.learners.sgd:SGD", "object:X-1"])
    names = {name.removeprefix("a_package/") for name in found}
    assert names == {"__init__.py", "deep/net.py", "loss.py", "far.py"}
    assert own_code([f"{package}/far.py:x"]).keys() == {"far.py"}


def test_own_code_that_imports_fedlearn_beside_it_has_no_file_of_fedlearn():
    found = own_code(["tests.oracles.algorithms.federation:load"])
    assert "tests/oracles/algorithms/federation.py" in found
    assert {name.partition("/")[0] for name in found} == {"tests"}


@pytest.mark.slow
def test_a_private_run_holds_no_hash_of_its_rows(tmp_path, capsys):
    pd.DataFrame({"a": np.arange(60) % 9.0, "y": np.arange(60) % 7.0}).to_csv(tmp_path / "own.csv", index=False)
    declared = 'data = "own.csv"\ntarget = "y"\ntarget_bounds = [0, 9]\nbounds = { a = [0, 9] }\n'
    (tmp_path / "own.toml").write_text(declared)
    run = fedlearn.run(
        data=tmp_path / "own.toml", model="dp-forest", clients=2, engine="inline", progress=False, out=tmp_path / "run"
    )
    assert json.loads((run.folder / "manifest.json").read_text())["data"] == ""
    assert end_of("verify", str(run.folder)) == 0
    assert "private rows have no hash" in capsys.readouterr().out
