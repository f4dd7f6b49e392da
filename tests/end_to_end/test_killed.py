"""A run that was killed leaves only its folder behind, and resumes from there to the same bytes."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from .conftest import end_of, resumed, wait_until

FAULTY = {
    "model.name": "faulty:model", "clients": 6, "rounds.cohort": 0, "rounds.total": 3,
    "compression.codec": "drop", "strategy.name": "fedavgm",
}  # fmt: skip
GONE_WITHIN = 5.0  # seconds; takes one on an idle machine


@pytest.mark.parametrize(
    ("faults", "committed"),
    [
        pytest.param("hang:3:2", 1, id="middle"),
        pytest.param("hang:evaluate:*", 0, id="evaluation", marks=pytest.mark.long),  # of round 1
        pytest.param("hang:1:1", 0, id="first-round", marks=pytest.mark.long),
        pytest.param("hang:5:3", 2, id="last-round", marks=pytest.mark.long),  # what is owed is killed there, too
    ],
)
def test_killed_in_the_middle_of_a_round_it_resumes_to_the_same_bytes(
    in_the_middle, execute, undisturbed, place, faults, committed
):
    shared_memory = set(Path("/dev/shm").iterdir())
    killed = in_the_middle(FAULTY, faults, env={"TMPDIR": str(place)})
    assert list(place.glob("pymp-*"))  # the socket of the workers' parent
    killed.signal(signal.SIGKILL)
    wait_until(lambda: not killed.alive(), "its processes to end", GONE_WITHIN)
    assert len(killed.seen) >= 3  # two workers and their parent
    assert list(place.iterdir()) == []
    wait_until(lambda: set(Path("/dev/shm").iterdir()) <= shared_memory, "shared memory without names to be left")
    assert killed.run.committed == committed
    run, reference = execute(FAULTY, out=killed.run.folder), undisturbed(FAULTY)
    assert run.sha == reference.sha
    assert run.summary["accuracy"] == reference.summary["accuracy"]
    assert [e["committed"] for e in run.events_of("started")] == [0, committed]


@pytest.mark.long
def test_a_run_resumes_on_another_engine_and_with_other_workers(in_the_middle, execute, undisturbed):
    killed = in_the_middle({**FAULTY, "engine.workers": 1}, "hang:3:2")
    killed.signal(signal.SIGKILL)
    assert execute({**FAULTY, "engine.workers": 3, "rounds.total": 2}, out=killed.run.folder).committed == 2
    assert execute(FAULTY, engine="inline", out=killed.run.folder).sha == undisturbed(FAULTY).sha


@pytest.mark.long
def test_what_nodes_owe_survives_a_kill(in_the_middle, execute, undisturbed):
    owing = {**FAULTY, "compression.codec": "residual,top-k:0.05,quantize:4", "compression.send": "update"}
    killed = in_the_middle(owing, "hang:3:3")
    killed.signal(signal.SIGKILL)
    run = execute(owing, out=killed.run.folder)
    assert run.sha == undisturbed(owing).sha
    forgetful = {**owing, "compression.codec": "top-k:0.05,quantize:4"}
    assert run.sha != undisturbed(forgetful).sha


@pytest.mark.long
def test_a_run_killed_at_random_moments_again_and_again_ends_with_the_same_bytes(command, undisturbed):
    settings = {"rounds.total": 6, "compression.codec": "drop"}
    rng = random.Random(7)
    killed = command(settings)
    for goal in (1, 3):
        killed.wait_for_round(goal)
        time.sleep(rng.uniform(0, 0.1))  # the moment is what is tested
        killed.signal(signal.SIGKILL)
        if goal == 1:
            killed = command(resume=killed.run.folder)
    assert resumed(killed.run).sha == undisturbed(settings).sha


@pytest.mark.long
def test_killed_before_anything_is_stored_it_starts_anew_in_the_same_folder(command, undisturbed):
    killed = command()
    wait_until((killed.run.folder / "settings.toml").exists, "the settings", every=0.001)
    killed.signal(signal.SIGKILL)
    (killed.run.folder / "checkpoint.json").unlink(missing_ok=True)  # had it come that far
    assert resumed(killed.run).sha == undisturbed().sha


@pytest.mark.slow
def test_two_runs_do_not_share_a_folder(in_the_middle, capsys):
    running = in_the_middle(FAULTY, "hang:3:1")
    assert end_of("simulate", "--resume", running.run.folder) == 2
    assert "another process is running in this folder" in capsys.readouterr().err
