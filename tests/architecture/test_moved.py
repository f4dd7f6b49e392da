"""Modules that have moved load by their former names, wherever these stand."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import fedlearn
from fedlearn.plugins.moved import MOVED
from fedlearn.plugins.own_packages import exists
from fedlearn.plugins.registry import load_reference

ROOT = Path(__file__).resolve().parents[2]
FORMER = {  # what users and stored runs name
    "client.visit": "client.request",
    "fedlearn.client.participation": "client.owner.participation",
    "fedlearn.folding": "fedlearn.aggregation",
    "fedlearn.plugging.registry": "fedlearn.plugins.registry",
    "fedlearn.privacy.audit.cases": "fedlearn.auditing.cases",
    "fedlearn.words.state": "fedlearn.core.state",
    "server.stopping": "server.early_stopping",
}


@pytest.mark.parametrize(("former", "today"), MOVED.items())
def test_every_line_leads_to_a_module_and_hides_none(former, today):
    assert exists(today)
    place = ROOT / former.replace(".", "/")  # git leaves an empty folder where caches lie in it
    assert not place.with_suffix(".py").exists() and not (place / "__init__.py").exists()


def test_a_program_that_imports_nothing_else_finds_the_one_module_and_is_told_once():
    program = f"""
import importlib, warnings
for former, today in {FORMER}.items():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        module = importlib.import_module(former)
        assert module is importlib.import_module(former) is importlib.import_module(today), former
    assert module.__spec__.name == today
    assert sum("is now" in str(each.message) for each in told) == 1, former
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.mark.filterwarnings("ignore:.* is now .*:DeprecationWarning")
def test_names_of_a_module_are_those_of_the_package_that_has_its_name_now():
    for former in ("fedlearn.plugins:STRATEGIES", "server.gate:ReportGate", "server.exchange:Exchange"):
        assert load_reference(former) is not None
    asynchronous = load_reference("server.schedules.asynchronous:Asynchronous")
    assert asynchronous is load_reference("server.schedules.asynchronous.schedule:Asynchronous")


@pytest.mark.filterwarnings("ignore:.* is now .*:DeprecationWarning")
def test_a_pickle_of_a_former_path_loads():
    today = [load_reference("fedlearn.core.state:ArraySpec")((2,), "float32"), load_reference("client.request:Request")]
    stored = pickle.dumps(today, protocol=0)
    for name, before in (
        ("fedlearn.core.state", "fedlearn.words.state"),
        ("client.request\nRequest", "client.visit\nVisit"),
    ):
        assert name.encode() in stored
        stored = stored.replace(name.encode(), before.encode())
    assert pickle.loads(stored) == today


@pytest.mark.filterwarnings("ignore:.* is now .*:DeprecationWarning")
def test_a_stored_run_that_names_former_paths_goes_on_and_comes_to_the_same_bytes(tmp_path):
    def settings(steps):
        return {
            "data.dataset": "digits", "model.name": "linear", "clients": 4, "rounds.cohort": 3, "engine.name": "inline",
            "training.batch_size": 20, "compression.send": "update",
            "strategy.steps": f'{{"{steps}:ClippedTo": {{"norm": 0.5}}}}',
        }  # fmt: skip

    former = fedlearn.run(
        settings=settings("fedlearn.folding.steps"), rounds=1, out=tmp_path / "former", progress=False
    )
    assert "fedlearn.folding.steps" in (former.folder / "settings.toml").read_text(encoding="utf-8")
    resumed = fedlearn.run(resume=former, rounds=2, progress=False)
    today = fedlearn.run(
        settings=settings("fedlearn.aggregation.steps"), rounds=2, out=tmp_path / "today", progress=False
    )
    assert resumed.sha256 == today.sha256
