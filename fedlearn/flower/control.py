"""Flower's Control API, which the ``flwr`` command speaks: registering nodes, submitting runs, following them.

The names used here are private, but the command itself takes a second to start for every node, and exits 0 when a run
has failed. Written for flwr 1.41.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import fedlearn.flower  # noqa: F401, it sets Flower's switches before anything of it is imported
from fedlearn.config.load import FlatValue
from fedlearn.core.errors import RunFailed

KEY_IN_USE = "Public key already in use"


class ControlError(RunFailed):
    """The SuperLink refuses a request."""


class Away(ControlError):
    """The SuperLink does not answer at the moment."""


def key_as_registered(line: bytes, name: str) -> bytes:
    """Return a public key, in OpenSSH's format, as Flower registers it."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    key = load_ssh_public_key(line)
    if not isinstance(key, EllipticCurvePublicKey):
        raise ControlError(f"{name}: not the public key of an elliptic curve")
    return bytes(public_key_to_bytes(key))


class Control:
    """A connection to the Control API of a SuperLink.

    Parameters
    ----------
    address
        Host and port, as ``superlink:8000``.
    root_certificates
        The certificate authority, PEM; None means a connection without TLS.
    """

    def __init__(self, address: str, root_certificates: bytes | None) -> None:
        from flwr.cli.cli_client_interceptor import CliClientHttpInterceptor
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        self.address = address
        self._client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=root_certificates is None,
            root_certificates=root_certificates,
            interceptors=[CliClientHttpInterceptor(), RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def register(self, public_key: Path, *, name: str) -> bool:
        """Register a node by its public key, in OpenSSH's format; return whether the key was new."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        key = key_as_registered(public_key.read_bytes(), str(public_key))
        try:
            request = RegisterNodeRequest(public_key=key, name=name)
            self._call(lambda: self._client.RegisterNode(request))
        except ControlError as error:
            if KEY_IN_USE not in str(error):
                raise
            return False
        return True

    def registered(self) -> dict[bytes, int]:
        """Return the public keys of the registered nodes, as `key_as_registered` gives them, with the nodes' ids."""
        from flwr.proto.control_pb2 import ListNodesRequest

        answer = self._call(lambda: self._client.ListNodes(ListNodesRequest()))
        return {bytes(node.public_key): int(node.node_id) for node in answer.nodes_info if not node.unregistered_at}

    def online_keys(self) -> set[bytes]:
        """Return the public keys of the nodes that are connected, as `key_as_registered` gives them."""
        from flwr.proto.control_pb2 import ListNodesRequest

        answer = self._call(lambda: self._client.ListNodes(ListNodesRequest()))
        return {bytes(node.public_key) for node in answer.nodes_info if node.status == "online"}

    def unregister(self, node_id: int) -> None:
        """Unregister a node: the server then refuses each message of it."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        self._call(lambda: self._client.UnregisterNode(UnregisterNodeRequest(node_id=node_id)))

    def online(self) -> int:
        """Return how many nodes are connected."""
        from flwr.proto.control_pb2 import ListNodesRequest

        answer = self._call(lambda: self._client.ListNodes(ListNodesRequest()))
        return sum(node.status == "online" for node in answer.nodes_info)

    def submit(self, app: Mapping[str, Path], run_config: dict[str, FlatValue]) -> int:
        """Start a run of a Flower App, whose files are given by their names in a bundle; return its id."""
        from flwr.cli.build import build_fab_from_files
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        bundle = deflated(build_fab_from_files(app)[0])
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        request = StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(run_config))
        return int(self._call(lambda: self._client.StartRun(request)).run_id)

    def status(self, run_id: int) -> tuple[str, str]:
        """Return a run's status, as ``running`` or ``finished:failed``, and Flower's details."""
        from flwr.proto.control_pb2 import ListRunsRequest

        answer = self._call(lambda: self._client.ListRuns(ListRunsRequest(run_id=run_id)))
        status = answer.run_dict[run_id].status
        return ":".join(filter(None, (status.status, status.sub_status))), status.details

    def log_of(self, run_id: int) -> Iterator[str]:
        """Yield the output of the run's ServerApp as it comes, until the run ends."""
        from flwr.proto.control_pb2 import StreamLogsRequest

        stream = self._call(
            lambda: iter(self._client.StreamLogs(StreamLogsRequest(run_id=run_id, after_timestamp=0.0)))
        )
        while (piece := self._call(lambda: next(stream, None))) is not None:
            yield piece.log_output

    def stop(self, run_id: int) -> None:
        """End a run."""
        from flwr.proto.control_pb2 import StopRunRequest

        self._call(lambda: self._client.StopRun(StopRunRequest(run_id=run_id)))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _call(self, call: Callable[[], Any]) -> Any:
        import httpx
        from click import ClickException
        from flwr.cli.utils import flwr_cli_exc_handler

        try:
            with flwr_cli_exc_handler():
                try:
                    return call()
                except httpx.RequestError as error:
                    raise Away(
                        f"the SuperLink at {self.address} does not answer: {error}: begin fedlearn server there, or "
                        "name another address by --superlink"
                    ) from None
        except ClickException as error:
            raise ControlError(f"the SuperLink at {self.address} says: {error.message}") from None


def deflated(bundle: bytes) -> bytes:
    """Return a zip file with the same files, compressed, as Flower sends it, uncompressed, with every message."""
    smaller = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as given, zipfile.ZipFile(smaller, "w") as made:
        for member in given.infolist():
            made.writestr(member, given.read(member), zipfile.ZIP_DEFLATED)
    return smaller.getvalue()
