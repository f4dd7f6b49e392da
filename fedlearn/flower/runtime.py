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
    """Return nothing if all names are there, else what is missing."""
    if missing:
        return missing
    wanted: list[tuple[object, str]] = [(HeartbeatSender, "_run")]
    wanted += [
        (clientapp, name)
        for name in ("run_clientapp", "pull_task_input", "install_from_fab", "push_message", "push_task_output", "log")
    ]
    return next((name for place, name in wanted if not hasattr(place, name)), "")


def give_signs_of_life_later() -> None:
    """Have tasks give their first sign of life after some seconds, when most have ended; a claim is good for 30."""
    signs = HeartbeatSender._run

    def later(task: HeartbeatSender) -> None:
        if not task._stop_event.wait(FIRST_SIGN):
            signs(task)

    HeartbeatSender._run = later  # type: ignore[method-assign, assignment]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where tasks come from: a SuperNode's Runtime API.

    Parameters
    ----------
    address
        As ``supernode:9094``.
    root_certificates
        The certificate authority, PEM; None for the system's own, or with `insecure`.
    secret
        What a SuperExec has to know to be given tasks; empty if there is none.
    """

    address: str
    insecure: bool
    root_certificates: bytes | None = None
    secret: bytes = b""

    def connect(self, *interceptors: Any) -> Any:
        """Return a client that tries every call once."""
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.insecure,
            root_certificates=self.root_certificates,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), *interceptors],
        )


class Unreachable(Exception):
    """The SuperNode does not answer, for the moment."""


class NotTrusted(Exception):
    """The SuperNode refuses us."""


class Tasks:
    """The tasks of a kind that a SuperNode has for its client, or a SuperLink for its server app."""

    def __init__(self, endpoint: Endpoint, kind: str) -> None:
        self._kind = kind
        auth = []
        if endpoint.secret:
            auth = [SuperExecAuthHttpInterceptor(master_secret=endpoint.secret, protected_methods=ACQUIRE)]
        self._client = endpoint.connect(*auth)

    def acquire(self) -> str:
        """Return the token of a task that is now ours, or nothing if there is none."""
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
    """What a task is about.

    Parameters
    ----------
    fab
        The app's Flower App Bundle, a zip file.
    fab_hash
        Its SHA-256.
    message
        The message without its content, as `report_death` takes it.
    ttl
        Seconds after which nobody wants the answer any more.
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
        SHA-256 of a bundle's bytes -> where an earlier task has installed it: that is not done again for each message.
    on_installed
        Told the same of the task's bundle, before its app is loaded.
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
    """Import what `run_server_task` needs, so that a process forked after it begins at once."""
    import flwr.superlink.runtime.run_serverapp  # noqa: F401


def run_server_task(endpoint: Endpoint, token: str) -> NoReturn:
    """Run a server task to its end in this process, which ends with it; what it prints goes to the run's log, too."""
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
    """Answer a message in place of the process that has died over it.

    Without it, the SuperNode waits a minute for the process, and takes no other message meanwhile.
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
    """Say that a server task has ended, in place of its process; else the SuperLink waits a minute for it."""
    client = endpoint.connect(RuntimeTokenHttpInterceptor(token))
    clientapp.push_task_output(client, context=None, sub_status="failed", details=reason)
    client.close()
