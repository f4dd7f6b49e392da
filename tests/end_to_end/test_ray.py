"""``--engine ray``: the same bytes, clients that die or raise, Ctrl-C, kill -9, and no file or process left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

pytest.importorskip("ray", reason="Ray is not installed: pip install 'fedlearn[ray]'")

pytestmark = pytest.mark.network

ON_RAY = {
    "engine.name": "ray", "model.name": "faulty:model", "clients": 8, "rounds.cohort": 0, "rounds.quorum": 0.5,
    "compression.codec": "drop",
}  # fmt: skip
SLOW = 300.0  # seconds; Ray alone has taken 125 to start on a loaded machine
SOON = 30.0  # seconds, on a loaded machine; takes two on an idle one


@pytest.fixture
def environment(place) -> dict[str, str]:
    return {"TMPDIR": str(place)}


def nothing_is_left(started, place) -> bool:
    """Whether all processes have gone, with their files; Ray's own are named after the process that started it."""
    gone = not started.alive() and not list(place.iterdir())
    return gone and not list(Path("/tmp/ray").glob(f"session_*_{started.process.pid}"))


def listening(process: psutil.Process) -> set[str]:
    try:
        connections = process.net_connections("tcp")
    except psutil.Error:
        return set()
    return {c.laddr.ip.removeprefix("::ffff:") for c in connections if c.status == psutil.CONN_LISTEN}


def failed(run):
    return {(e["round"], e["partition"]): e["reason"] for e in run.events_of("failed")}


def test_clients_that_die_or_raise_fail_alone_and_the_model_is_the_one_of_every_engine(
    command, execute, environment, place, monkeypatch
):
    started = command(ON_RAY, env={**environment, "FAULTS": "exit:2:1 raise:4:1 quit:5:2"})
    addresses = set()
    while started.process.poll() is None:
        addresses |= {ip for process in started.look() for ip in listening(process)}
        time.sleep(0.2)  # between two looks at a run that goes on
    said = started.process.stderr.read()
    assert started.process.returncode == 0, said
    assert nothing_is_left(started, place)
    assert addresses == {"127.0.0.1"}
    assert failed(started.run) == {
        (1, 2): "the Ray actor that ran it died (SYSTEM_ERROR)",
        (1, 4): "RuntimeError in faulty.py:28: the disk is full",
        (2, 5): "SystemExit in faulty.py:38: no more",
    }
    monkeypatch.setenv("FAULTS", "raise:2:1 raise:4:1 raise:5:2")
    reference = execute(ON_RAY, engine="inline")
    assert started.run.sha == reference.sha
    for name in ("accuracy", "loss", "bytes_up", "bytes_down", "bytes_protocol"):
        assert started.run.summary[name] == reference.summary[name], name


def hanging(command, tmp_path, faults, environment, **how):
    """Start a run, or go on with it, and return it when a node hangs."""
    mark = tmp_path / "mark"
    mark.unlink(missing_ok=True)
    started = command(ON_RAY, env={**environment, "FAULTS": faults, "MARK": str(mark)}, **how)
    wait_until(lambda: mark.exists() or started.process.poll() is not None, "Ray", SLOW)
    assert started.process.poll() is None, started.process.communicate()
    return started


def test_interrupted_or_killed_it_leaves_nothing_and_resumes_to_the_same_bytes(
    command, execute, undisturbed, tmp_path, environment, place
):
    interrupted = hanging(command, tmp_path, "hang:3:1", environment)
    assert interrupted.signal(signal.SIGINT, group=True) < SOON
    assert interrupted.process.returncode == 130
    said = interrupted.process.stderr.read()
    assert said.splitlines() == [f"interrupted; resume by --resume {interrupted.run.folder}"]
    assert interrupted.run.summary["status"] == "interrupted"
    wait_until(lambda: nothing_is_left(interrupted, place), "Ray", SOON)

    killed = hanging(command, tmp_path, "hang:3:2", environment, resume=interrupted.run.folder)
    killed.signal(signal.SIGKILL)
    wait_until(lambda: nothing_is_left(killed, place), "Ray", SOON)
    assert killed.run.committed == 1

    resumed = execute(ON_RAY, engine="embedded", out=killed.run.folder)
    assert resumed.summary["status"] == "completed"
    assert resumed.sha == undisturbed(ON_RAY).sha


def below(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def names_of(processes: list[psutil.Process]) -> set[str]:
    names = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names


@pytest.mark.long
def test_a_running_cluster_is_joined_and_left_as_it_was(command, undisturbed, environment, place):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    head = [
        Path(sys.executable).with_name("ray"), "start", "--head", "--block",
        f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats",
        f"--temp-dir={place}/its",
    ]  # fmt: skip
    cluster = subprocess.Popen(head, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(lambda: "raylet" in names_of(below(cluster)), "Ray", SLOW)
        started = command(
            {"engine.name": "ray", "engine.options.address": address, "engine.workers": 1}, env=environment
        )
        assert started.process.wait(SLOW) == 0, started.process.stderr.read()
        assert not started.alive()
        assert [path.name for path in place.iterdir()] == ["its"]
        assert started.run.sha == undisturbed().sha
        wait_until(lambda: "ray::ClientAppA" not in "".join(names_of(below(cluster))), "Ray", SOON)
        assert {"gcs_server", "raylet"} <= names_of(below(cluster))
    finally:
        for process in [*below(cluster), psutil.Process(cluster.pid)]:
            process.kill()
        cluster.wait()
