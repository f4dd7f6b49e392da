"""The tasks of Flower's SuperNodes and SuperLinks: taken, run in this process, reported where the process has died.

Written for flwr 1.41. `available` says whether all private names are where they were; if not, Flower's own commands
are run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from fedlearn import flower  # first: it sets Flower's switches before anything of it is imported
from fedlearn.flower.pulling import missing as missing_to_pull

try:
    import flwr.supernode.runtime.run_clientapp as clientapp
    import httpx
    from flwr.app import Context, Error, Message, RecordDict
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.heartbeat import HeartbeatSender
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        RuntimeVersionHttpInterceptor,
        SuperExecAuthHttpInterceptor,
    )
    from flwr.supercore.runtime import RuntimeHttpClient

    missing = missing_to_pull
except (ImportError, AttributeError) as error:  # Flower has moved something
    missing = str(error)

CLIENT_TASK, SERVER_TASK = "flwr-clientapp", "flwr-serverapp"
ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
FIRST_SIGN = 5.0  # seconds until a task says that it lives; Flower: at once, then every 20


def available() -> str:
    """Return the names that are missing; empty if all are there."""
    if missing:
        return missing
    wanted: list[tuple[object, str]] = [(HeartbeatSender, "_run")]
    wanted += [
        (clientapp, name)
        for name in ("run_clientapp", "pull_task_input", "install_from_fab", "push_message", "push_task_output", "log")
    ]
    return next((name for place, name in wanted if not hasattr(place, name)), "")


def give_signs_of_life_later() -> None:
    """Make tasks give their first sign of life after 5 s, when most have ended; Flower waits 30 s for the first."""
    signs = HeartbeatSender._run

    def later(task: HeartbeatSender) -> None:
        if not task._stop_event.wait(FIRST_SIGN):
            signs(task)

    HeartbeatSender._run = later  # type: ignore[method-assign, assignment]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The Runtime API of a SuperNode or SuperLink, from which tasks are taken.

    Parameters
    ----------
    address
        Host and port, as ``supernode:9094``.
    root_certificates
        The certificate authority, PEM; None for the system's own, or with `insecure`.
    secret
        The secret with which a SuperExec asks for tasks; empty if there is none.
    """

    address: str
    insecure: bool
    root_certificates: bytes | None = None
    secret: bytes = b""

    def connect(self, *interceptors: Any) -> Any:
        """Return a client of the API that tries every call once."""
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.insecure,
            root_certificates=self.root_certificates,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), *interceptors],
        )


class Unreachable(Exception):
    """The SuperNode or SuperLink does not answer at the moment."""


class NotTrusted(Exception):
    """The SuperNode or SuperLink refuses this executor."""


class Tasks:
    """The tasks of one kind: a SuperNode's for its client, or a SuperLink's for its server app."""

    def __init__(self, endpoint: Endpoint, kind: str) -> None:
        self._kind = kind
        auth = []
        if endpoint.secret:
            auth = [SuperExecAuthHttpInterceptor(master_secret=endpoint.secret, protected_methods=ACQUIRE)]
        self._client = endpoint.connect(*auth)

    def acquire(self) -> str:
        """Acquire a task and return its token; empty if there is no task."""
        try:
            answer = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=[self._kind]))
        except httpx.HTTPStatusError as error:
            if error.response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise NotTrusted(str(error)) from None
            raise Unreachable(str(error)) from None
        except httpx.HTTPError as error:
            raise Unreachable(str(error)) from None
        return str(answer.token) if answer.HasField("task") else ""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class Input:
    """The input of a client task.

    Parameters
    ----------
    fab
        The app's Flower App Bundle, a zip file.
    fab_hash
        The bundle's SHA-256.
    message
        The message without its content, as `report_death` takes it.
    ttl
        Seconds after which the server no longer waits for the answer.
    """

    fab: bytes
    fab_hash: str
    run_config: Mapping[str, Any]
    message: bytes
    ttl: float


def run_task(
    endpoint: Endpoint,
    token: str,
    *,
    on_input: Callable[[Input], None],
    installed: Mapping[str, str],
    on_installed: Callable[[str, str], None],
) -> NoReturn:
    """Run a client task to its end in this process, which ends with it.

    Parameters
    ----------
    on_input
        Called before the app is installed.
    installed
        SHA-256 of a bundle's bytes -> the folder in which an earlier task has installed it; it is not installed again.
    on_installed
        Called with the SHA-256 and the folder of the task's bundle, before its app is loaded.
    """
    pull = clientapp.pull_task_input
    install = clientapp.install_from_fab  # type: ignore[attr-defined]

    def install_once(fab: bytes, **how: Any) -> Path:
        checksum = sha256(fab).hexdigest()
        known = Path(installed.get(checksum, ""))
        place = known if checksum in installed and known.is_dir() else install(fab, **how)
        on_installed(checksum, str(place))
        return place

    def pull_and_tell(client: Any) -> Any:
        message, context, run, fab = pull(client)
        about = message_to_proto(remove_content_from_message(message)).SerializeToString()
        on_input(Input(fab.content, fab.hash_str, context.run_config, about, message.metadata.ttl))
        return message, context, run, fab

    clientapp.pull_task_input = pull_and_tell
    clientapp.install_from_fab = install_once  # type: ignore[attr-defined, assignment]
    clientapp.run_clientapp(
        runtime_api_address=endpoint.address,
        token=token,
        insecure=endpoint.insecure,
        certificates=endpoint.root_certificates,
        parent_pid=os.getppid(),
    )
    raise SystemExit(0)


def import_for_server_tasks() -> None:
    """Import the modules of `run_server_task`, so that a process that is forked later begins at once."""
    import flwr.superlink.runtime.run_serverapp  # noqa: F401


def run_server_task(endpoint: Endpoint, token: str) -> NoReturn:
    """Run a server task to its end in this process, which ends with it; its output also goes to the run's log."""
    from queue import Queue

    from flwr.supercore.logger import mirror_output_to_queue
    from flwr.superlink.runtime.run_serverapp import run_serverapp

    output: Queue[str | None] = Queue()
    mirror_output_to_queue(output)
    run_serverapp(
        runtime_api_address=endpoint.address,
        log_queue=output,
        token=token,
        insecure=endpoint.insecure,
        certificates=endpoint.root_certificates,
        parent_pid=os.getppid(),
    )
    raise SystemExit(0)


def report_death(endpoint: Endpoint, token: str, message: bytes, reason: str) -> None:
    """Answer a message in place of the process that has died over the message.

    Without an answer, the SuperNode waits a minute for the process, and takes no other message meanwhile.
    """
    client = endpoint.connect(RuntimeTokenHttpInterceptor(token))
    asked = message_from_proto(ProtoMessage.FromString(message))
    about = asked.metadata
    run_id, node_id = about.run_id, about.dst_node_id
    flower.TaskIdentity.run_id, flower.TaskIdentity.node_id, flower.TaskIdentity.task_id = run_id, node_id, 0
    answer = Message(Error(flower.ErrorCode.CLIENT_APP_CRASHED, reason), reply_to=asked)
    sender = Context(run_id, node_id, {}, RecordDict(), {})
    clientapp.push_message(client, answer, sender)
    clientapp.push_task_output(client, context=None, sub_status="failed", details=reason)
    client.close()


def report_server_death(endpoint: Endpoint, token: str, reason: str) -> None:
    """Report the end of a server task in place of its process; else the SuperLink waits a minute for the process."""
    client = endpoint.connect(RuntimeTokenHttpInterceptor(token))
    clientapp.push_task_output(client, context=None, sub_status="failed", details=reason)
    client.close()
