"""The Ray cluster of a run: started on this machine for the run, or running already."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from fedlearn.core.errors import RunFailed, SettingError, UsageError
from fedlearn.engine.processes import environment
from fedlearn.engine.ray_runtime.ray_folder import guarded_folder

KNOCK = 5.0  # seconds for a running cluster to accept a connection
LOCAL = ("127.0.0.1", "localhost", "[::1]")
QUIET: dict[str, Any] = {"logging_level": logging.ERROR}

FOR_CLIENTS = {
    "OMP_NUM_THREADS": "1",  # one process a core, one thread each
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
FOR_RAY = {
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the end would start another cluster
    "RAY_DEDUP_LOGS": "0",  # else the lines of two clients' tracebacks are mixed
    "RAY_worker_niceness": "0",  # Ray's default is 15: all other processes of the machine would go first
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # as Ray does on those: else it listens on all interfaces


@contextmanager
def connected(address: str, *, cpus: int) -> Iterator[None]:
    """Connect to a Ray cluster for the block; a cluster that was started for the run is stopped at its end.

    Parameters
    ----------
    address
        HOST:PORT of a running cluster; empty starts one on this machine.
    cpus
        Cores of this machine for a cluster that is started for the run.
    """
    where = _joined(address) if address else _started(cpus)
    with _signals_kept() as keep, environment(**FOR_RAY | ({} if address else LOOPBACK)), where:
        keep()
        yield


@contextmanager
def _started(cpus: int) -> Iterator[None]:
    """Start Ray on this machine; at the end stop it, and remove its files."""
    import ray

    if ray.is_initialized():
        raise UsageError("this process is connected to a Ray cluster already: ray.shutdown() first")
    with guarded_folder() as folder:
        try:
            # What we start inherits the variables.
            with environment(**FOR_CLIENTS | {"PYTHONPATH": os.pathsep.join(sys.path)}), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # on GPUs of actors that ask for none
                ray.init("local", num_cpus=cpus, include_dashboard=False, _temp_dir=str(folder), **QUIET)
            yield
        finally:
            ray.shutdown()


@contextmanager
def _joined(address: str) -> Iterator[None]:
    """Join a running cluster, and leave it as it was."""
    host, port = _knock(address)
    import ray

    if host in LOCAL:  # Ray would look for the cluster at this machine's address in the network, and wait for ever
        _knock(f"{ray.util.get_node_ip_address()}:{port}")
    # A module that a machine of the cluster lacks at these paths is taken from its installed packages.
    variables = FOR_CLIENTS | {"PYTHONPATH": os.pathsep.join(sys.path)} | _ours(os.environ)
    try:
        try:
            ray.init(address, runtime_env={"env_vars": variables}, **QUIET)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RunFailed(f"the Ray cluster at {address} cannot be joined: {str(error).splitlines()[0]}") from None
        yield
    finally:
        ray.shutdown()


def _ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("FEDLEARN_")}


def _knock(address: str) -> tuple[str, str]:
    """Return host and port; raise SettingError where no process listens, as Ray itself would try for a long time."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()) or "/" in host:
        raise SettingError("engine.options.address", address, "must be HOST:PORT, as `ray start --head` prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()
    except (OSError, OverflowError) as error:
        raise SettingError(
            "engine.options.address",
            address,
            f"no process answers there ({error}); give the address that `ray start --head` prints",
        ) from None
    return host, port


@contextmanager
def _signals_kept() -> Iterator[Callable[[], object]]:
    """Give a function that restores the handler of SIGTERM, which Ray replaces; at the end restore it in any case."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield lambda: signal.signal(signal.SIGTERM, before)
    finally:
        signal.signal(signal.SIGTERM, before)


def versions() -> dict[str, str]:
    """Return the versions of this machine's packages that decide bytes: two machines should have the same."""
    return {name: version(name) for name in ("flwr", "numpy", "torch")}


def why_unequal(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return which version a machine of the cluster has, and the one that starts the run has not; empty if none."""
    for name, mine in ours.items():
        if theirs[name] != mine:
            return f"a machine of the Ray cluster has {name} {theirs[name]}, this one {mine}: make them equal"
    return ""


def cause_of(error: Exception) -> str:
    """Return the reason at the end of the text of one of Ray's errors, which goes over many lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    _, _, exit_type = lines[-1].partition("Worker exit type: ")
    return exit_type.split()[0] if exit_type else lines[-1]
