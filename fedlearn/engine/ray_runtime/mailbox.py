"""The mailbox: messages wait here for a runner that is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Condition

from flwr.app import Message


@dataclass(frozen=True, slots=True, eq=False)
class TimedMessage:
    """A message on its way to a node.

    Parameters
    ----------
    granted
        Seconds in which the message must be answered.
    until
        When these seconds are over, on the grid's clock.
    """

    message: Message
    granted: float
    until: float

    @property
    def node_id(self) -> int:
        """The node to which the message is sent."""
        return self.message.metadata.dst_node_id


class Mailbox:
    """Hands out messages in the order of their arrival, but never two of one node at the same time.

    A node's memory after one message is its memory at the next.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: deque[TimedMessage] = deque()
        self._running: set[int] = set()  # node ids
        self._is_open = True

    def put(self, messages: Iterable[TimedMessage]) -> None:
        """Put messages behind all others."""
        with self._changed:
            self._waiting.extend(messages)
            self._changed.notify_all()

    def take(self) -> TimedMessage | None:
        """Return the next message, after waiting for one; None when the mailbox is closed."""
        with self._changed:
            while self._is_open:
                message = next((each for each in self._waiting if each.node_id not in self._running), None)
                if message is not None:
                    self._waiting.remove(message)
                    self._running.add(message.node_id)
                    return message
                self._changed.wait()
            return None

    def done(self, message: TimedMessage) -> None:
        """Mark a message that was taken as handled."""
        with self._changed:
            self._running.discard(message.node_id)
            self._changed.notify_all()

    def wait_until_empty(self) -> None:
        """Return when no message waits and none is being run."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._running))

    def close(self) -> None:
        """Make every `take` return None from now on; messages that are left are not handed out."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
