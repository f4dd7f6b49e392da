"""RunnerGrid: a grid whose nodes are run by runners, each with a thread that waits for replies."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from threading import Thread
from typing import Any, Protocol

from flwr.app import Context, Message

from fedlearn.core.clock import WallClock
from fedlearn.engine.node_calls import context_of, error_reply, kept_in
from fedlearn.engine.ray_runtime.mailbox import Mailbox, TimedMessage
from fedlearn.engine.virtual_nodes import VirtualNodes, expired
from fedlearn.flower import ErrorCode

NICE_TO_JOIN = 10.0  # seconds that a thread has to notice that its runner is closed

log = logging.getLogger(__name__)


class RunnerDied(Exception):
    """The process that ran a node is gone; its runner has another process for the next node."""


class Runner(Protocol):
    """Runs one node at a time, in another process."""

    def run(self, message: Message, context: Context, *, seconds: float) -> tuple[Message, Context]:
        """Return the node's reply, and its context as the client app left it.

        Raises
        ------
        TimeoutError
            If there is no reply within `seconds`; the node has been stopped then.
        RunnerDied
            If the process that ran the node died over it.
        """
        ...

    def close(self) -> None:
        """Stop a node that is still running."""
        ...


class RunnerGrid(VirtualNodes):
    """A grid that takes messages at once, and collects their replies as they come."""

    def __init__(self, runners: Sequence[Runner], num_nodes: int, settings: dict[str, Any]) -> None:
        super().__init__(num_nodes, settings)
        self._runners = runners
        self._clock = WallClock()
        self._mailbox = Mailbox()
        self._threads = [Thread(target=self._serve, args=(runner,), daemon=True) for runner in runners]
        for thread in self._threads:
            thread.start()

    def deliver(self, messages: Sequence[Message], *, seconds: float) -> None:
        """Put the messages into the mailbox."""
        now = self._clock.now()
        granted = [min(seconds, message.metadata.ttl) for message in messages]
        self._mailbox.put(TimedMessage(m, given, now + given) for m, given in zip(messages, granted, strict=True))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver the messages; return the replies that came within `timeout` seconds."""
        ids = self._push(messages, seconds=math.inf if timeout is None else timeout)
        self._mailbox.wait_until_empty()
        return self.pull_messages(ids)

    def node_states(self) -> bytes:
        """Return the memories of all nodes, after they have read all messages."""
        self._mailbox.wait_until_empty()
        return super().node_states()

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return the memories that have changed since the last call; if `settled`, after all messages are read."""
        if settled:
            self._mailbox.wait_until_empty()
        return super().changed_node_states()

    def close(self) -> None:
        """End all runners, and forget the messages that wait."""
        self._mailbox.close()
        for runner in self._runners:
            runner.close()
        for thread in self._threads:
            thread.join(NICE_TO_JOIN)

    def _serve(self, runner: Runner) -> None:
        while (timed := self._mailbox.take()) is not None:
            for reply in self._replies_of(runner, timed):
                self.replies[timed.message.metadata.message_id] = reply
            self._mailbox.done(timed)

    def _replies_of(self, runner: Runner, timed: TimedMessage) -> list[Message]:
        """Run a node; return its reply or an error, or no reply if it was stopped before its message expired."""
        message, node = timed.message, timed.node_id
        context = context_of(node, self.kept.get(node, b""), num_nodes=self.num_nodes, settings=self.settings)
        try:
            left = timed.until - self._clock.now()
            if left <= 0:
                raise TimeoutError
            reply, context = runner.run(message, context, seconds=left)
            self.keep({node: kept_in(context)})
            return [reply]
        except TimeoutError:
            return expired([message], timed.granted)
        except RunnerDied as death:
            return [error_reply(message, ErrorCode.CLIENT_APP_CRASHED, str(death))]
        except Exception as error:  # the thread must go on, or all messages after this one would never be answered
            log.exception("node=%d type=%s", node, message.metadata.message_type)
            return [error_reply(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"{type(error).__name__}: {error}")]
