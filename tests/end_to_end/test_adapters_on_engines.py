"""Adapters of the real `peft`: the same bytes on every engine, on a network and after a kill; and a report's bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.conftest import PLUGINS, end_of
from tests.waiting import wait_until

peft = pytest.importorskip("peft", reason="peft is not installed: pip install 'fedlearn[hf]'")

SITE = str(Path(peft.__file__).parents[1])
PATIENCE = 600.0
ARRAYS, ENTRIES = 10, 2 * 2 * 2 * 4 * 32 + 10 * 33  # two layers, query and value, A and B of rank 4; and the head
SETTINGS = {
    "clients": 3, "rounds.cohort": 0, "rounds.total": 3, "rounds.minimum_ready": 1.0, "rounds.quorum": 1.0,
    "rounds.selection_window": 60.0, "rounds.reporting_deadline": 120.0, "data.dataset": "digits",
    "model.name": "pictures_by_peft:adapted", "training.local_epochs": 1, "training.optimizer": "adamw",
    "training.lr": 0.003, "training.momentum": 0.0, "training.batch_size": 50, "evaluation.where": "none",
}  # fmt: skip
FLEXIBLE = {**SETTINGS, "strategy.name": "flexlora"}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The 'repr' attribute|The given NumPy array:UserWarning"),
]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """The SHA-256 of each rule's run in one process."""
    from fedlearn.engine import ENGINES
    from tests.end_to_end.conftest import Run, config_of

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PLUGINS)
        found = {}
        for settings in (SETTINGS, FLEXIBLE):
            folder = tmp_path_factory.mktemp("wanted") / "run"
            ENGINES.load("inline")(config_of(settings, "inline", folder))
            found[settings.get("strategy.name", "")] = Run(folder)
    return found


@pytest.mark.long
def test_a_report_has_the_bytes_of_the_adapters(wanted):
    run = wanted[""]
    sizes = [each["bytes"] for each in run.events_of("reported")]
    assert len(sizes) == 9
    assert min(sizes) > 4 * ENTRIES and max(sizes) <= 4 * ENTRIES + 3_000 + 150 * ARRAYS
    assert run.sha != wanted["flexlora"].sha


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("settings", [SETTINGS, FLEXIBLE], ids=["fedavg", "flexlora"])
def test_workers_come_to_the_bytes_of_one_process(settings, workers, wanted, command):
    started = command({**settings, "engine.workers": workers}, env={"PYTHONPATH": f"{PLUGINS}:{SITE}"})
    assert started.process.wait(PATIENCE) == 0, started.process.communicate()
    assert started.run.sha == wanted[settings.get("strategy.name", "")].sha


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_same_bytes(wanted, command, monkeypatch):
    monkeypatch.syspath_prepend(PLUGINS)
    killed = command({**SETTINGS, "rounds.total": 3}, env={"PYTHONPATH": f"{PLUGINS}:{SITE}"})
    wait_until(lambda: killed.run.committed >= 1, "round 1", PATIENCE)
    killed.signal(signal.SIGKILL, group=True)
    assert killed.run.committed < 3
    assert end_of("simulate", "--quiet", "--resume", killed.run.folder) == 0
    assert killed.run.sha == wanted[""].sha


@pytest.mark.network
def test_ray_comes_to_the_bytes_of_one_process(wanted, command, place):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedlearn[ray]'")
    env = {"PYTHONPATH": f"{PLUGINS}:{SITE}", "TMPDIR": str(place)}
    started = command({**SETTINGS, "engine.name": "ray"}, env=env)
    assert started.process.wait(2 * PATIENCE) == 0, started.process.communicate()
    assert started.run.sha == wanted[""].sha


@pytest.mark.network
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_three_supernodes_come_to_the_bytes_of_one_process(wanted, tmp_path):
    one = Federation(tmp_path / "net", clients=3, libraries=Path(SITE))
    try:
        one.up()
        run = one.submit(SETTINGS)
        assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
    finally:
        one.stack.down()
    assert run.summary["model_sha256"] == wanted[""].sha
    sizes = [each["bytes"] for each in run.events if each["event"] == "reported"]
    assert len(sizes) == 9 and max(sizes) <= 4 * ENTRIES + 3_000 + 150 * ARRAYS
