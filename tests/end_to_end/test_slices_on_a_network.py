"""Slices of three SuperNodes with three ratios: the bytes of the simulation, and of the messages."""

from __future__ import annotations

import signal

import pytest

from tests.compose.federation import Federation, why_not
from tests.end_to_end.conftest import end_of
from tests.end_to_end.test_slices import bytes_of

PATIENCE = 120.0
RATIOS = [1.0, 0.5, 0.25]
ASKED = {
    "clients": 3, "rounds.cohort": 0, "rounds.total": 3, "rounds.minimum_ready": 1.0, "rounds.quorum": 1.0,
    "rounds.selection_window": 30.0, "rounds.reporting_deadline": 60.0, "data.dataset": "digits", "model.name": "mlp",
    "model.options": {"width": 40}, "training.local_epochs": 1, "strategy.options": {"ratios": RATIOS},
    "evaluation.where": "none",
}  # fmt: skip


@pytest.mark.network
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_three_supernodes_with_three_ratios_come_to_the_bytes_of_the_simulation(tmp_path, execute):
    one = Federation(tmp_path / "net", clients=3)
    shas = {}
    try:
        one.up()
        for strategy in ("heterofl", "fedrolex"):
            run = one.submit({**ASKED, "strategy.name": strategy})
            assert one.stack.wait(run.job.name, PATIENCE) == 0, one.stack.story(60)
            shas[strategy] = run.summary["model_sha256"]
            up = {each["partition"]: each["bytes"] for each in run.events if each["event"] == "reported"}
            wanted = {k: bytes_of(40 * ratio) for k, ratio in enumerate(RATIOS)}
            assert up == pytest.approx({k: int(each) for k, each in wanted.items()}, rel=0.02)
    finally:
        one.stack.down()
    assert shas == {name: execute({**ASKED, "strategy.name": name}, engine="inline").sha for name in shas}


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["heterofl", "fedrolex", "fjord"])
def test_a_killed_run_goes_on_to_the_same_bytes(strategy, command, execute):
    settings = {**ASKED, "strategy.name": strategy, "rounds.total": 8}
    text = {
        name: str(value).replace("'", '"') if isinstance(value, dict) else value for name, value in settings.items()
    }
    killed = command(text)
    killed.wait_for_round(2)
    killed.signal(signal.SIGKILL, group=True)
    assert killed.run.committed < 8
    assert end_of("simulate", "--quiet", "--resume", killed.run.folder) == 0
    assert killed.run.sha == execute(settings, engine="inline").sha
