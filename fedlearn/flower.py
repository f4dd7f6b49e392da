"""Every name of Flower that is not public API and that we need, in one place.

Written for flwr 1.41. When Flower moves one of them, this is the file to mend.
"""

from __future__ import annotations

import os
import time
from uuid import uuid4

# Flower and Ray phone home unless told otherwise before they are imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.metadata import Metadata  # needed to name our own message ids
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto  # what the wire carries
from flwr.proto.node_pb2 import NodeInfo as NodeInfo  # what `Grid.get_nodes` gives
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from flwr.supercore.run import Run as Run  # `Grid.run` must return one
from flwr.supercore.task_identity import TaskIdentity  # Message() reads it for its sender

SERVER_NODE_ID = 1
RUN_ID = 1


def enter_run() -> None:
    """Tell Flower who this process is, so that ``Message(content, node, type)`` works outside its own runtime."""
    TaskIdentity.run_id = RUN_ID
    TaskIdentity.node_id = SERVER_NODE_ID
    TaskIdentity.task_id = 1


def empty_run() -> Run:
    """Return what `Grid.run` gives outside Flower's own runtime."""
    return Run.create_empty(RUN_ID)


def server_context(run_config: dict[str, bool | int | float | str]) -> Context:
    """Return the context of a ServerApp that our own engine starts."""
    return Context(RUN_ID, SERVER_NODE_ID, {}, RecordDict(), run_config)


def with_id(message: Message) -> Message:
    """Give a message an id, as Flower's own transports do; there is no public setter."""
    message.metadata.__dict__["_message_id"] = uuid4().hex
    return message


def received(content: RecordDict, *, node_id: int, message_type: str, message_id: str, ttl: float) -> Message:
    """Return an instruction as the node receives it."""
    metadata = Metadata(
        run_id=RUN_ID,
        message_id=message_id,
        src_node_id=SERVER_NODE_ID,
        dst_node_id=node_id,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=ttl,
        message_type=message_type,
    )
    return Message(metadata=metadata, content=content)


def reply_from(
    *, node_id: int, message_type: str, reply_to: str, content: RecordDict | None, error: Error | None
) -> Message:
    """Return a node's reply as the server receives it."""
    metadata = Metadata(
        run_id=RUN_ID,
        message_id=uuid4().hex,
        src_node_id=node_id,
        dst_node_id=SERVER_NODE_ID,
        reply_to_message_id=reply_to,
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type=message_type,
    )
    return Message(metadata=metadata, content=content, error=error)


def to_bytes(content: RecordDict) -> bytes:
    """Return records as Flower's transport writes them."""
    return recorddict_to_proto(content).SerializeToString()


def from_bytes(data: bytes) -> RecordDict:
    """Return the records that `to_bytes` wrote."""
    return recorddict_from_proto(ProtoRecordDict.FromString(data))


def size_in_bytes(content: RecordDict) -> int:
    """Return the length of `to_bytes`, without making the bytes."""
    return recorddict_to_proto(content).ByteSize()
