"""Every name of Flower that is not public API and that we need, in one place.

Written for flwr 1.41. When Flower moves one of them, this is the file to mend.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar
from uuid import uuid4

# Flower and Ray phone home unless told otherwise before they are imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.app.metadata import Metadata  # needed to name our own message ids
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto  # what the wire carries
from flwr.proto.node_pb2 import NodeInfo as NodeInfo  # what `Grid.get_nodes` gives
from flwr.proto.recorddict_pb2 import Array as ProtoArray
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from flwr.supercore.run import Run as Run  # `Grid.run` must return one
from flwr.supercore.task_identity import TaskIdentity as TaskIdentity  # Message() reads it for its sender

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
    return _message(metadata, content, None)


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
    return _message(metadata, content, error)


def _message(metadata: Metadata, content: RecordDict | None, error: Error | None) -> Message:
    """Return a message with given metadata; Flower's own transports call it so, its signature does not say it."""
    message: Message = Message(metadata=metadata, content=content, error=error)  # type: ignore[call-overload]
    return message


Record = ArrayRecord | MetricRecord | ConfigRecord
R = TypeVar("R", ArrayRecord, MetricRecord, ConfigRecord)


def records_of(content: RecordDict, kind: type[R]) -> list[R]:
    """Return the records of one kind.

    Not ``content.array_records``: Flower makes a table for that which refers to itself and to the content, so that a
    report's arrays stay in memory until Python happens to look for cycles, some hundred MB later.
    """
    return [record for record in content.values() if isinstance(record, kind)]


def array_of(dtype: str, shape: tuple[int, ...], stype: str, data: bytes) -> Array:
    """Return ``Array(dtype, shape, stype, data)``; the constructor itself takes five times as long."""
    array = Array.__new__(Array)
    array.__dict__.update(dtype=dtype, shape=shape, stype=stype, data=data, _is_dirty=True)
    return array


def filled(record: R, entries: Mapping[str, object]) -> R:
    """Put entries into an empty record. Only for those of our own making: set one by one, each would be checked."""
    record.__dict__["_data"].update(entries)
    return record


def to_bytes(records: Mapping[str, Record]) -> bytes:
    """Return records as Flower's transport writes them; any mapping will do, a RecordDict checks every entry anew."""
    data: bytes = recorddict_to_proto(records).SerializeToString()  # type: ignore[arg-type]
    return data


def from_bytes(data: bytes) -> RecordDict:
    """Return the records that `to_bytes` wrote."""
    return recorddict_from_proto(ProtoRecordDict.FromString(data))


def size_in_bytes(key: str, record: Record) -> int:
    """Return by how much one record makes `to_bytes` longer, without copying any array.

    Protocol Buffers write a nested message as one byte of tag, its length as a varint, and itself; an array's bytes
    are such a field of their Array message. A test holds the sum equal to the length of the bytes themselves.
    """
    if not isinstance(record, ArrayRecord):
        size: int = recorddict_to_proto({key: record}).ByteSize()  # type: ignore[arg-type]
        return size
    arrays = sum(_field(_field(len(name.encode())) + _field(_array_size(array))) for name, array in record.items())
    return _field(_field(len(key.encode())) + _field(arrays))


def _array_size(array: Array) -> int:
    return _about_size(array.dtype, array.shape, array.stype) + (_field(len(array.data)) if array.data else 0)


@lru_cache(maxsize=4096)
def _about_size(dtype: str, shape: tuple[int, ...], stype: str) -> int:
    size: int = ProtoArray(dtype=dtype, shape=shape, stype=stype).ByteSize()
    return size


def _field(length: int) -> int:
    """Return the size of a field of this length: tag, varint, content."""
    return 1 + max(-(-length.bit_length() // 7), 1) + length


# --- Flower's Simulation Runtime --------------------------------------------------------------------------------------


def client_actor() -> Any:
    """Return the Ray actor class in which Flower's Simulation Runtime runs clients; imports Ray.

    Its ``run(client_app_fn, message, partition_id, context)`` returns (partition_id, reply, context). No public name
    leads to it: `flwr.simulation` has only `run_simulation`, which is deprecated and takes no settings.
    """
    with warnings.catch_warnings():  # Flower's import has Python show every deprecation from then on
        from flwr.simulation.ray_transport.ray_actor import ClientAppActor
    return ClientAppActor
