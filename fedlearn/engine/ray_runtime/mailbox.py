"""Where messages wait for somebody who is free to run their nodes."""

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
        Seconds that it was given to be answered.
    until
        When they are over, on the grid's clock.
    """

    message: Message
    granted: float
    until: float

    @property
    def node_id(self) -> int:
        """The node that it is for."""
        return self.message.metadata.dst_node_id


class Mailbox:
    """Hands out messages in the order in which they came, but never two of one node at the same time.

    What a node keeps after one message is what it finds at the next.
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
        """Hear that a message that was taken is done with."""
        with self._changed:
            self._running.discard(message.node_id)
            self._changed.notify_all()

    def wait_until_empty(self) -> None:
        """Return when no message waits and none is being run."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._running))

    def close(self) -> None:
        """Send home everybody who waits for a message; nobody takes those that are left."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
