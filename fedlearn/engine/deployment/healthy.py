"""Ask a service for its health: exit code 0 if it is well, else 1 and why.

python -m fedlearn.engine.deployment.healthy 127.0.0.1:8091              the standard gRPC health service
python -m fedlearn.engine.deployment.healthy http://127.0.0.1:8094/health   any 2xx answer
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from fedlearn.engine.processes import die_with

TIMEOUT = 5.0  # seconds
PAUSE = 5.0  # seconds from one start to the next
MOST_FILES = 4096  # open files of the parent process

log = logging.getLogger("executor")


def why_not(address: str) -> str:
    """Return what is wrong with a service; empty if the service is well."""
    return _of_url(address) if address.startswith("http://") else _of_grpc(address)


def _of_grpc(address: str) -> str:
    import grpc
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
    from grpc_health.v1.health_pb2_grpc import HealthStub

    with grpc.insecure_channel(address) as channel:
        try:
            answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=TIMEOUT)
        except grpc.RpcError as error:
            return f"{address}: {error.code().name}"
    if answer.status == HealthCheckResponse.SERVING:
        return ""
    return f"{address}: {HealthCheckResponse.ServingStatus.Name(answer.status)}"


def _of_url(address: str) -> str:
    try:
        urllib.request.urlopen(address, timeout=TIMEOUT).close()
    except OSError as error:
        return f"{address}: {error}"
    return ""


class Health:
    """The health service of this process, in a child process that ends with this one.

    A child is needed as gRPC's threads would not survive the forks of this process. A child that has ended is replaced:
    else a container would be reported as unhealthy for ever, though its programs go on.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._pid, self._began = self._start(), time.monotonic()

    def has_ended(self, pid: int) -> None:
        """Note that a child of this process has ended, which may be the health service."""
        if pid == self._pid:
            self._pid = 0

    def look(self) -> None:
        """Start another child if the child before has ended; not faster than one every 5 s, as each may end."""
        if not self._pid and time.monotonic() > self._began + PAUSE:
            log.warning("the health service at %s has ended: another one is started", self._address)
            self._pid, self._began = self._start(), time.monotonic()

    def _start(self) -> int:
        parent = os.getpid()
        if child := os.fork():
            return child
        try:
            _serve(self._address, parent)
        except Exception as error:
            log.error("there is no health service at %s: %s", self._address, error)
        finally:
            os._exit(1)


def _serve(address: str, parent: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    os.closerange(3, MOST_FILES)  # connections of the parent, which would stay open in this process
    import grpc
    from grpc_health.v1.health import HealthServicer
    from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    add_HealthServicer_to_server(HealthServicer(), server)
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def main() -> None:
    """Ask, and exit with code 0 if the service is well, else 1."""
    if len(sys.argv) != 2:
        print("usage: python -m fedlearn.engine.deployment.healthy HOST:PORT | http://HOST:PORT/PATH", file=sys.stderr)
        sys.exit(2)
    if wrong := why_not(sys.argv[1]):
        print(wrong, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
