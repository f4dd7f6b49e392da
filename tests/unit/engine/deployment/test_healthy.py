"""The health check asks the standard gRPC health service, or a URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from fedlearn.engine.deployment.healthy import why_not
from fedlearn.engine.processes import free_port


def test_a_service_that_answers_is_healthy_and_one_that_has_gone_is_not():
    address = f"127.0.0.1:{free_port()}"
    program = (
        "import sys, time; from fedlearn.engine.deployment.healthy import serve_health\n"
        "serve_health(sys.argv[1]); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, address]) as served:
        for _ in range(600):
            if not why_not(address):
                break
        assert why_not(address) == ""
        os.kill(served.pid, signal.SIGKILL)
    for _ in range(600):  # its health server ends with it
        if why_not(address):
            break
    assert "UNAVAILABLE" in why_not(address)


def test_nobody_at_a_url_is_not_healthy():
    assert "refused" in why_not(f"http://127.0.0.1:{free_port()}/health")
