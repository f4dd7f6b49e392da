"""The health check asks the standard gRPC health service, or a URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from fedlearn.engine.deployment.healthy import why_not
from fedlearn.engine.processes import free_port
from tests.waiting import wait_until


def waited_for(address, *, well):
    """Wait until a service is well, or is not; return what is wrong."""
    wait_until(lambda: bool(why_not(address)) != well, lambda: f"another answer than {why_not(address)!r}", every=0.1)
    return why_not(address)


def test_a_service_that_answers_is_healthy_and_one_that_has_gone_is_not():
    address = f"127.0.0.1:{free_port()}"
    program = (
        "import sys, time; from fedlearn.engine.deployment.healthy import Health\nHealth(sys.argv[1]); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, address]) as served:
        waited_for(address, well=True)
        os.kill(served.pid, signal.SIGKILL)
    assert "UNAVAILABLE" in waited_for(address, well=False)  # its health server ends with it


@pytest.mark.long
def test_what_answers_for_an_executor_is_replaced_when_it_was_killed():
    address = f"127.0.0.1:{free_port()}"
    words = ["--insecure", f"--runtime-api-address=127.0.0.1:{free_port()}", f"--health-server-address={address}"]
    program = [sys.executable, "-m", "fedlearn.engine.deployment.executor", "--server", *words]
    executor = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    try:
        waited_for(address, well=True)
        (health,) = psutil.Process(executor.pid).children()
        health.kill()
        waited_for(address, well=False)
        waited_for(address, well=True)
    finally:
        executor.kill()
        executor.wait()


def test_nobody_at_a_url_is_not_healthy():
    assert "refused" in why_not(f"http://127.0.0.1:{free_port()}/health")
