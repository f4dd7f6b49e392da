"""Flower's SuperNode with short pauses, one message at a time, and a byte in a pipe for each message that has come.

Written for flwr 1.41. `missing` says what Flower has moved; Flower's own command is run in that case.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import fedlearn.flower  # noqa: F401, it sets Flower's switches before anything of it is imported
from fedlearn.flower.pulling import missing as missing_to_pull
from fedlearn.flower.pulling import pull_impatiently
from fedlearn.flower.unary import answer_in_one_piece

try:
    import flwr.supernode.start_client_internal as supernode
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    from fedlearn.flower.enclosed import enclose_in_supernode
    from fedlearn.flower.one_at_a_time import OneAtATime

    wanted = ("time", "_pull_and_store_message", "_push_messages", "_insert_message")
    missing = missing_to_pull or ", ".join(name for name in wanted if not hasattr(supernode, name))
except (ImportError, AttributeError) as error:  # Flower has moved something
    missing = str(error)

BUSY_POLL = 0.05  # seconds between a SuperNode's looks for the answer of its client; Flower: 0.5
SHORTEST_IDLE_POLL, LONGEST_IDLE_POLL = 0.1, 1.0  # seconds between its questions for messages; Flower: 3


class Impatient:
    """Replaces the module `time` in Flower's SuperNode loop, whose pauses are written into the code.

    The loop sleeps 3 s when there was no message, and 0.5 s between looks for its client's answer. Here a sleep is
    shorter, the shorter the less time has passed since the loop was last busy: a round's messages follow one another
    soon. The time for which a SuperLink delays its answer (`engine/deployment/long_polling.py`) counts as slept.
    """

    def __init__(self) -> None:
        self._idle = SHORTEST_IDLE_POLL
        self._asked_at = 0.0  # monotonic seconds

    def __getattr__(self, name: str) -> Any:
        """Return everything else of `time`."""
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Sleep for at most `seconds`."""
        if seconds < 1:  # busy
            self._idle = SHORTEST_IDLE_POLL
            time.sleep(min(seconds, BUSY_POLL))
            self._asked_at = time.monotonic()
            return
        time.sleep(max(min(seconds, self._idle) - (time.monotonic() - self._asked_at), 0.0))
        self._idle = min(self._idle * 1.2, LONGEST_IDLE_POLL)
        self._asked_at = time.monotonic()


def run_supernode(bell: int | None, *, headers: Mapping[str, str]) -> None:
    """Run Flower's SuperNode with short pauses; arguments are those of ``flower-supernode``, in `sys.argv`.

    Parameters
    ----------
    bell
        File descriptor of a pipe into which a byte is written when a message has come; None: no byte is written.
    headers
        That each request has besides Flower's own.
    """
    FleetHttpClient.__init__ = _with(headers, FleetHttpClient.__init__)  # type: ignore[method-assign]
    supernode.time = Impatient()  # type: ignore[attr-defined, assignment]
    enclose_in_supernode(supernode, FleetHttpClient)
    handle_one_at_a_time(supernode)
    if bell is not None:
        supernode._pull_and_store_message = _ringing(supernode._pull_and_store_message, bell)
    pull_impatiently()
    answer_in_one_piece()
    flower_supernode()


def _with(headers: Mapping[str, str], make: Callable[..., None]) -> Callable[..., None]:
    """Return the maker of a client whose requests have further headers; a Flower that has moved this has them not."""

    def made(self: Any, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        with suppress(AttributeError):
            self._client.headers.update(headers)

    return made


def handle_one_at_a_time(loop: Any) -> None:
    """Patch the two steps of Flower's SuperNode loop, which are names of its module."""
    steps = OneAtATime(loop._pull_and_store_message, loop._push_messages, loop._insert_message, loop.time.sleep)
    loop._pull_and_store_message, loop._push_messages = steps.pull, steps.push


def _ringing(pull: Callable[..., int | None], bell: int) -> Callable[..., int | None]:
    """Return a pull that rings once there is a task; a ring that is lost is made up for, as executors also ask."""
    os.set_blocking(bell, False)  # a full pipe, which is not read, must not stop us

    def pull_and_ring(**given: Any) -> int | None:
        run_id = pull(**given)
        if run_id is not None:
            with suppress(BlockingIOError):
                os.write(bell, b"!")
        return run_id

    return pull_and_ring
