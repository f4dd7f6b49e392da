"""Ctrl-C, SIGTERM and SIGHUP end a run at once, cleanly, and resumable."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.waiting import wait_until

FAULTY = {"model.name": "faulty:model", "clients": 6, "rounds.cohort": 0}
SOON = 10.0  # seconds, on a busy machine; it would hang for ever otherwise


@pytest.mark.parametrize(
    ("sent", "faults", "group"),
    [
        pytest.param(signal.SIGTERM, "hang:3:2", True, id="training-job", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "hang:3:2", True, id="training-terminal", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "hang:evaluate:*", False, id="evaluation-main-process", marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, "hang:3:2", False, id="training-main-process-only", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "hang:evaluate:*", True, id="evaluation-terminal", marks=pytest.mark.long),
    ],
)
def test_stopped_it_ends_soon_and_resumes_to_the_same_bytes(in_the_middle, execute, undisturbed, sent, faults, group):
    interrupted = in_the_middle(FAULTY, faults)
    assert interrupted.signal(sent, group=group) < SOON
    wait_until(lambda: not interrupted.alive(), "its processes to end", SOON)
    assert interrupted.process.returncode == 128 + sent
    said = interrupted.process.stderr.read()
    assert said.count("\n") == 1, said
    assert f"--resume {interrupted.run.folder}" in said
    assert interrupted.run.summary["status"] == "interrupted"
    assert interrupted.run.events[-1]["event"] == "ended"
    assert interrupted.run.events[-1]["status"] == "interrupted"
    resumed = execute(FAULTY, out=interrupted.run.folder)
    assert resumed.summary["status"] == "completed"
    assert resumed.sha == undisturbed(FAULTY).sha


def test_interrupted_while_it_starts_it_ends_soon_and_quietly(command):
    starting = command()
    wait_until(
        lambda: any("forkserver" in " ".join(child.cmdline()) for child in starting.look()), "a child", every=0.001
    )
    assert starting.signal(signal.SIGINT, group=True) < SOON
    wait_until(lambda: not starting.alive(), "its processes to end", SOON)
    assert "Traceback" not in starting.process.stderr.read()


IN_A_CALLBACK = """
import sys, time, types, weakref
from fedlearn.__main__ import main

def simulate(arguments, program):
    class Lock:
        pass
    lock = Lock()
    def callback(_):
        raise KeyboardInterrupt  # as Ctrl-C does there
    watched = weakref.ref(lock, callback)
    del lock
    time.sleep(60)

sys.modules["fedlearn.cli"] = types.SimpleNamespace(main=simulate)
main()
"""


def test_ctrl_c_that_python_drops_in_a_callback_still_ends_the_command():
    ended = subprocess.run([sys.executable, "-c", IN_A_CALLBACK], capture_output=True, text=True, timeout=SOON)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
