"""A run that was killed leaves nothing behind but its folder, and goes on from there to the same bytes."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from .conftest import wait_until

pytestmark = pytest.mark.slow

FAULTY = {
    "model.name": "faulty:model", "clients": 6, "rounds.cohort": 0, "rounds.total": 3,
    "compression.codec": "drop", "strategy.name": "fedavgm",
}  # fmt: skip
GONE_WITHIN = 5.0  # seconds; takes one on an idle machine


@pytest.mark.parametrize(
    ("faults", "committed"),
    [("hang:0:1", 0), ("hang:3:2", 1), ("hang:5:3", 2), ("hang:evaluate:*", 0)],
    ids=["first-round", "middle", "last-round", "evaluation"],
)
def test_killed_in_the_middle_of_a_round_it_resumes_to_the_same_bytes(
    in_the_middle, execute, undisturbed, place, faults, committed
):
    shared_memory = set(Path("/dev/shm").iterdir())
    killed = in_the_middle(FAULTY, faults, env={"TMPDIR": str(place)})
    assert list(place.glob("pymp-*"))  # the socket of the workers' parent
    killed.signal(signal.SIGKILL)
    begin = time.monotonic()
    while killed.alive() and time.monotonic() < begin + GONE_WITHIN:
        time.sleep(0.01)
    assert killed.alive() == []
    assert len(killed.seen) >= 3  # two workers and their parent
    assert list(place.iterdir()) == []
    wait_until(lambda: set(Path("/dev/shm").iterdir()) <= shared_memory, "shared memory without names to be left")
    assert killed.run.committed == committed
    resumed, reference = execute(FAULTY, out=killed.run.folder), undisturbed(FAULTY)
    assert resumed.sha == reference.sha
    assert resumed.summary["accuracy"] == reference.summary["accuracy"]
    assert [e["committed"] for e in resumed.events_of("started")] == [0, committed]


def test_a_run_resumes_on_another_engine_and_with_other_workers(in_the_middle, execute, undisturbed):
    killed = in_the_middle({**FAULTY, "engine.workers": 1}, "hang:3:2")
    killed.signal(signal.SIGKILL)
    assert execute({**FAULTY, "engine.workers": 3, "rounds.total": 2}, out=killed.run.folder).committed == 2
    assert execute(FAULTY, engine="inline", out=killed.run.folder).sha == undisturbed(FAULTY).sha


def test_what_nodes_owe_survives_a_kill(in_the_middle, execute, undisturbed):
    owing = {**FAULTY, "compression.codec": "residual,top-k:0.05,quantize:4", "compression.send": "update"}
    killed = in_the_middle(owing, "hang:3:3")
    killed.signal(signal.SIGKILL)
    resumed = execute(owing, out=killed.run.folder)
    assert resumed.sha == undisturbed(owing).sha
    forgetful = {**owing, "compression.codec": "top-k:0.05,quantize:4"}
    assert resumed.sha != undisturbed(forgetful).sha


def test_a_run_killed_at_random_moments_again_and_again_ends_with_the_same_bytes(command, undisturbed):
    settings = {"rounds.total": 6, "compression.codec": "drop"}
    rng = random.Random(7)
    killed = command(settings)
    for goal in (0, 2, 4):
        while killed.run.committed < goal and killed.process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))
        killed.signal(signal.SIGKILL)
        killed = command(resume=killed.run.folder)
    assert killed.process.wait(60) == 0
    assert killed.run.sha == undisturbed(settings).sha


def test_killed_before_anything_is_stored_it_starts_anew_in_the_same_folder(command, undisturbed):
    killed = command()
    while not (killed.run.folder / "settings.toml").exists():
        time.sleep(0.001)
    killed.signal(signal.SIGKILL)
    (killed.run.folder / "checkpoint.json").unlink(missing_ok=True)  # had it come that far
    resumed = command(resume=killed.run.folder)
    assert resumed.process.wait(60) == 0
    assert resumed.run.sha == undisturbed().sha


def test_two_runs_do_not_share_a_folder(in_the_middle, command):
    running = in_the_middle(FAULTY, "hang:3:1")
    second = command(resume=running.run.folder)
    assert second.process.wait(60) == 2
    assert "another process is running in this folder" in second.process.stderr.read()
