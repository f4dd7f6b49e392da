# ruff: noqa: E501 - a row a line
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

from .conftest import end_of, some_slow

CHEAP = {"clients": 3, "rounds": 2, "cohort": 0, "engine": "inline", "progress": False}
KEPT = {"rounds.keep_every": 1}
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
        options = {"data.options": {"target": "y"}, **KEPT}
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


def without_line(name, place=1):
    def change(run):
        lines = (run / name).read_text().splitlines(keepends=True)
        del lines[place]
        (run / name).write_text("".join(lines))

    return change


def another_byte(name):
    def change(run):
        path = next(iter(sorted(run.glob(name))))
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)

    return change


def gone(name):
    return lambda run: next(iter(sorted(run.glob(name)))).unlink()


def written(name, content="1\n"):
    return lambda run: (run / name).write_text(content)


def copied(source, target):
    return lambda run: shutil.copy(next(iter(sorted(run.glob(source)))), run / target)


CHANGES = {
    # kind -> what a line of verify has to name, and the change
    "a number of the table": ("metrics.csv: round 1, ", replaced("metrics.csv", r"(\n1,.*,)([\d.]+)", r"\g<1>9.75")),
    "a last digit of the table": ("metrics.csv", replaced("metrics.csv", r"\d\n\Z", "x\n")),
    "a line of the table": ("metrics.csv: it has 1 rounds in place of 2", without_line("metrics.csv")),
    "a column of the table": ("metrics.csv", replaced("metrics.csv", "train_loss", "other_loss")),
    "a number of the nodes' table": ("nodes.csv", replaced("nodes.csv", r"\d\.\d+", "0.5")),
    "a line of the nodes' table": ("nodes.csv", without_line("nodes.csv", 2)),
    "the nodes' table": ("nodes.csv: it is missing", gone("nodes.csv")),
    "a number of the summary": ("summary.json", replaced("summary.json", r'"accuracy": [\d.]+', '"accuracy": 0.999')),
    "a word of the summary": ("summary.json", replaced("summary.json", '"completed"', '"failed"')),
    "the hash in the summary": ("model_sha256 is not", replaced("summary.json", r'"model_sha256": "\w', '"model_sha256": "_')),
    "the summary": ("summary.json: it is missing", gone("summary.json")),
    "a setting": ("settings.toml", replaced("settings.toml", "batch_size = 100", "batch_size = 10")),
    "a setting that is none": ("settings.toml: it cannot be read", replaced("settings.toml", "batch_size = 100", "batch_size = true")),
    "the settings": ("settings.toml: it is missing", gone("settings.toml")),
    "a line of the log": ("events.jsonl", without_line("events.jsonl")),
    "a number of the log": ("events.jsonl", replaced("events.jsonl", r'"bytes_up": \d+', '"bytes_up": 1')),
    "a fact of the data": ("data.json", replaced("data.json", r'"classes": \d+', '"classes": 3')),
    "who has which rows": ("dealt.json", replaced("dealt.json", r"\d", "7")),
    "a count of the classes": ("classes.json", replaced("classes.json", r'("confusion": \[\s*\[\s*)\d+', r"\g<1>77")),
    "a version in the environment": ("environment.json", replaced("environment.json", r'"torch": "[\d.]+', '"torch": "1.0')),
    "a weight of the model": ("model.safetensors", another_byte("model.safetensors")),
    "a weight of the best model": ("best.safetensors", another_byte("best.safetensors")),
    "a weight of a model that was kept": ("models/round-000001", another_byte("models/round-000001*")),
    "another model": ("model.safetensors: it is not the model", copied("models/round-000001*", "model.safetensors")),
    "a model that came": ("models/round-000009.safetensors: it was added", copied("best.*", "models/round-000009.safetensors")),
    "a stored weight": ("state.safetensors", another_byte("checkpoint/*.state.safetensors")),
    "a stored part": ("round-000002.state.safetensors", gone("checkpoint/*.state.safetensors")),
    "a part that came": ("checkpoint/round-000009.nodes: it was added", written("checkpoint/round-000009.nodes")),
    "a number of the stored history": ("history.jsonl", replaced("checkpoint/history.jsonl", r"\d", "7")),
    "the checkpoint": ("checkpoint.json is damaged", replaced("checkpoint.json", r'"rounds": 2', '"rounds": 1')),
    "the checkpoint itself": ("checkpoint.json", gone("checkpoint.json")),
    "code in the checkpoint": ("checkpoint.json", replaced("checkpoint.json", r'"layers.py": "\w', '"layers.py": "_')),
    "code that came": ("objects/net-0123456789abcdef.pickle: it was added", lambda run: _code(run)),
    "statistics that came": ("statistics.json: it was added", written("statistics.json", "{}")),
    "the name of a file in the manifest": ("manifest.json", replaced("manifest.json", r'"files": \{\n  "', '"files": {\n  "x')),
    "a version in the manifest": ("manifest.json", replaced("manifest.json", r'"torch": "\d', '"torch": "_')),
    "the manifest": ("manifest.json: it is missing", gone("manifest.json")),
    "a number of a table of the report": ("report/tables/rounds.csv", replaced("report/tables/rounds.csv", r"\d\.\d+", "0.5")),
    "a number of a table for papers": ("report/tables/.*tex", replaced("report/tables/runs.tex", r"\d\.\d+", "0.5")),
    "a line of a table of the report": ("report/tables/rounds.csv", without_line("report/tables/rounds.csv")),
    "a point of a figure": ("report/figures/.*svg", lambda run: replaced(_figure(run), r"\d\.\d+", "9.5")(run)),
    "a number of the page": ("report/index.html", replaced("report/index.html", r"\d\.\d+", "0.5")),
    "a figure": ("report/figures/.*svg: it is missing", gone("report/figures/*.svg")),
    "a figure that came": ("report/figures/new.png: it was added", written("report/figures/new.png")),
    "the manifest of the report": ("report/manifest.json: it is missing", gone("report/manifest.json")),
}  # fmt: skip


def _code(run):
    (run / "objects").mkdir(exist_ok=True)
    (run / "objects/net-0123456789abcdef.pickle").write_bytes(b"")


def _figure(run):
    return str(next(iter(sorted(run.glob("report/figures/*.svg")))).relative_to(run))


QUICK = (
    "a number of the table", "a line of the table", "the nodes' table", "a number of the summary", "a setting that is none",
    "a line of the log", "a part that came", "the checkpoint itself", "the manifest", "a point of a figure",
)  # fmt: skip


@pytest.mark.parametrize("kind", some_slow(CHANGES, QUICK, long=CHANGES))
def test_every_change_is_named(said, kind):
    named, change = kind
    found = said(change=change)
    assert any(re.search(named, line) for line in found["wrong"]), found


def test_a_number_of_the_table_is_named_even_without_a_manifest(said):
    def change(run):
        (run / "manifest.json").unlink()
        replaced("metrics.csv", r"(\n1,.*,)([\d.]+)", r"\g<1>9.75")(run)

    found = said(change=change)
    assert re.search(r"metrics.csv: round 1, \w+: 9.75 in place of", found["wrong"][1])


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
        with pytest.raises(UsageError, match=r"^layers.py: it has changed since .*by accept_code=True"):
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


PRIVATE = {"epsilon": 4.0, "delta": 1e-5}
SOUND = {
    **{f"model {name}": {"model": name} for name in ("linear", "mlp", "cnn")},
    **{f"strategy {name}": {"strategy": name} for name in (
        "fedadam", "scaffold", "geometric-median", "fltrust", "ditto", "fedyogi", "fednova", "feddyn", "moon", "perfedavg",
    )},
    **{f"codec {name}": {"settings": {"compression.codec": name}} for name in ("drop:0.25", "drop:0.25,eden", "eden")},
    **{f"trees {name}": {"model": name, "data": "diabetes", "epsilon": 4.0, "rounds": 1} for name in ("dp-forest", "dp-boosting")},
    **{f"baseline {name}": {"baseline": name} for name in ("local", "central")},
    "validation rows": {"validation_share": 0.5},
    "an early stop": {"patience": 1, "rounds": 4},
    "an asynchronous schedule": {"devices": "alike", "settings": {"rounds.schedule": "buffered"}},
    "secure sums": {"settings": {"secure.sums": "masked", "secure.dropouts": 0.0}},
    "records that are protected": {"private": "records", **PRIVATE},
    "nodes that are protected": {"private": "nodes", **PRIVATE},
    "models that are kept": {"settings": {"rounds.keep_every": 1}},
    "two workers": {"engine": "embedded", "workers": 2},
    "an attack": {"attack": "alie", "attackers": 0.34},
    "nodes that measure": {"settings": {"evaluation.where": "nodes", "evaluation.nodes": 3}},
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", SOUND)
def test_nothing_is_found_in_sound_runs(kind, tmp_path, capsys):
    run = fedlearn.run(**{**CHEAP, "data": "digits", "model": "linear", "out": tmp_path / "run"} | SOUND[kind])
    run.report(figures="svg")
    assert end_of("verify", run.folder, "--json") == 0
    capsys.readouterr()
    if kind in ("models that are kept", "two workers"):
        fedlearn.run(resume=run, rounds=3, progress=False)
        assert end_of("verify", run.folder, "--json") == 0


def test_there_are_thirty_of_each():
    assert len(CHANGES) >= 30 and len(SOUND) >= 30
