"""Ask a service for its health: exit code 0 if it is well, else 1 and why.

python -m fedlearn.engine.deployment.healthy 127.0.0.1:8091              the standard gRPC health service
python -m fedlearn.engine.deployment.healthy http://127.0.0.1:8094/health   any 2xx answer
"""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from fedlearn.engine.processes import die_with

TIMEOUT = 5.0  # seconds


def why_not(address: str) -> str:
    """Return nothing if the service is well, else what is wrong."""
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


def serve_health(address: str) -> None:
    """Answer for this process at an address, in a child that ends with it: gRPC's threads would not survive a fork."""
    parent = os.getpid()
    if os.fork():
        return
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import grpc
    from grpc_health.v1.health import HealthServicer
    from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    add_HealthServicer_to_server(HealthServicer(), server)
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def main() -> None:
    """Answer by the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m fedlearn.engine.deployment.healthy HOST:PORT | http://HOST:PORT/PATH", file=sys.stderr)
        sys.exit(2)
    if wrong := why_not(sys.argv[1]):
        print(wrong, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
