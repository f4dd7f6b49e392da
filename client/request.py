"""A request: one message at one node, with all that is read once for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flwr.app import Context, Message, RecordDict

from client.memory import NodeMemory, NodeStatus, keep, memory_of
from fedlearn import wire
from fedlearn.config import RunConfig, from_flower
from fedlearn.config.policy import SIMULATED
from fedlearn.config.tables.running_settings import DEVICE_SETTING
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import UsageError

DEVICE = "device"  # name of the node's own device in its node config


@dataclass(eq=False)
class Request:
    """One message at one node.

    Parameters
    ----------
    message
        What the server sent, its records out of their boxes.
    context
        Flower's context of the node.
    config
        The settings of the run, with the device of this node.
    is_boxed
        Whether the records came in boxes, so that the server can open boxes.
    began
        When the message was read, in monotonic seconds.
    """

    message: Message
    context: Context
    config: RunConfig
    is_boxed: bool = False
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, message: Message, context: Context) -> Request:
        """Open the boxes and read the settings.

        A real node computes on the device that its owner says, else on the CPU; a virtual node on that of the run. A
        node with own data takes the data that its owner has declared, whatever data a server names.

        Raises
        ------
        Refused
            If a box holds something else than records.
        """
        settings, device = context.run_config, context.node_config.get(DEVICE, "cpu")
        declared = context.node_config.get("declared", "") if context.node_config.get("own-data") else ""
        is_at_home = settings.get(DEVICE_SETTING) == device and not declared
        config = from_flower(settings if is_at_home else at_home(settings, device, declared))
        return cls(message, context, config, wire.unbox(message.content))

    @property
    def content(self) -> RecordDict:
        """The records of the message."""
        return self.message.content

    @cached_property
    def partition_id(self) -> int:
        """Which partition the node holds; it names the node in all random streams."""
        try:
            return int(self.context.node_config["partition-id"])
        except (KeyError, ValueError):
            raise UsageError(
                "node-config partition-id is missing: start the client with partition-id=0 num-partitions=..."
            ) from None

    @property
    def holds_own_data(self) -> bool:
        """Whether the data folder of the node holds its own data, and no data of other nodes."""
        return bool(self.context.node_config.get("own-data"))

    @property
    def is_real(self) -> bool:
        """Whether the node is none of a simulation: only an engine that makes nodes up says `SIMULATED`.

        The config of a node comes from its owner. A server fills the settings of a run, and none of the node's config.
        """
        return self.context.node_config.get(SIMULATED) is not True

    @cached_property
    def instruction(self) -> Instruction:
        """Round, attempt and position of a training message."""
        return wire.read_instruction(self.content)

    @cached_property
    def memory(self) -> NodeMemory:
        """What the node keeps from message to message; changed in place, stored by `keep_memory`."""
        return memory_of(self.context)

    def keep_memory(self) -> None:
        """Store the memory as it is now."""
        keep(self.context, self.memory)

    def forget_memory(self) -> None:
        """Drop what was changed in the memory since it was stored."""
        self.__dict__.pop("memory", None)

    @property
    def status(self) -> NodeStatus:
        """What the node is doing."""
        return NodeStatus.of(self.context)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Mark the node as active until its report is made; a node that fails stays active."""
        before = self.status
        before.keep(self.context, active=True)
        yield
        before.keep(self.context, active=False, rounds_trained=before.rounds_trained + 1)


Visit = Request  # its former name


def at_home(run_config: Mapping[str, Any], device: Any = "cpu", declared: Any = "") -> dict[str, Any]:
    """Return the settings of a run with a node's device, and the data that its owner has declared, if there are any."""
    data = {"data.dataset": declared, "data.options": "", "data.dir": ""} if declared else {}
    return {**run_config, DEVICE_SETTING: device, **data}
