"""A SuperNode that handles one message at a time: the answer it sends is the answer to the message it pulled last.

Flower's loop sends whatever answers lie in its state when a message has been pulled. Its own pace made sure of four
things that ours does not, with an executor that has a task running within milliseconds, and with parts that come with
their message (`enclosed.py`):

- *A message that was given up has no task that runs.* Flower creates a task before the message is whole and confirmed;
  where the run has ended in between, the task stays. Here the task is created last.
- *Each message has one answer.* A process that is killed after it has answered is answered for once more, and a task
  that no process can begin has no answer. Here an answer belongs to its message by ``reply_to_message_id``; others are
  dropped, and a message whose task has ended without an answer gets an error in its place.
- *An answer is whole when it is sent.* Flower waits for ever for the parts of an answer whose process has died.
- *A task finds the memory that the task before has left.* A process hands over its context after its answer. Here the
  next message is pulled once the task has ended.

A message that expires before a process begins with it is passed over: the server waits for its answer no more.

Written for flwr 1.41.
"""

from __future__ import annotations

from collections.abc import Callable
from logging import WARN
from typing import Any

from flwr.app import Message
from flwr.common.constant import Status, SubStatus
from flwr.supercore import log
from flwr.supercore.date import now
from flwr.supernode.nodestate.in_memory_nodestate import CLIENT_APP_CRASHED_ERROR

from fedlearn.flower.enclosed import names_in

LOOK = 0.5  # seconds between looks for the client's answer, as in Flower's loop
PARTS_LOOK = 0.005  # seconds between looks for the rest of an answer, or for the end of a task, which follow at once
LATER = 1  # a task's id, until there is a task


def seconds_expired(message: Message) -> float:
    """Return for how many seconds a message has expired, by this machine's clock; negative while it is good.

    Flower refuses an answer by the same clock: its time to live is what is left of its question's.
    """
    about = message.metadata
    return float(now().timestamp() - about.created_at - about.ttl)


class OneAtATime:
    """Flower's two steps of a SuperNode's loop, for one message at a time.

    Parameters
    ----------
    pull
        Flower's ``_pull_and_store_message``.
    push
        Flower's ``_push_messages``.
    insert
        Flower's ``_insert_message``, which stores an answer with its parts.
    sleep
        How the loop sleeps.
    """

    def __init__(
        self,
        pull: Callable[..., int | None],
        push: Callable[..., None],
        insert: Callable[..., None],
        sleep: Callable[[float], None],
    ) -> None:
        self._pull, self._push, self._insert, self._sleep = pull, push, insert, sleep
        self._asked: Message | None = None
        self._task: int | None = None

    def pull(self, **given: Any) -> int | None:
        """Replace ``_pull_and_store_message``: create the task last; delete a message that Flower gives up."""
        state = _TaskLast(given["state"])
        self._asked = self._task = None

        def receive() -> Any:
            come = given["receive"]()
            if come is None or _is_passed_over(come[0]):
                return None
            self._asked = come[0]
            return come

        def confirm(run_id: int, message_id: str) -> None:
            given["confirm_message_received"](run_id, message_id)
            self._task = state.create_it()

        ours = {"state": state, "receive": receive, "confirm_message_received": confirm}
        run_id = self._pull(**given | ours)
        if run_id is None and self._asked is not None:
            _forget(self._asked, given["state"], given["object_store"])
        return run_id

    def push(self, *, state: Any, object_store: Any, **given: Any) -> None:
        """Replace ``_push_messages``: send the answer to the message that was pulled, and wait for the task's end."""
        assert self._asked is not None
        answer = self._answer(self._asked, state, object_store)
        if answer is None:
            return
        if (late := seconds_expired(self._asked)) > 0:
            log(WARN, "The answer to message %s is %.1f s late: no round waits for it", _question(self._asked), late)
        self._push(state=_Answered(state, answer), object_store=object_store, **given)
        self._wait_for_the_end(state)
        object_store.delete(self._asked.metadata.message_id)  # still there if the process died before it had read all

    def _answer(self, asked: Message, state: Any, store: Any) -> Message | None:
        """Wait for the whole answer to a message, and return it; None for a message that expires before it is begun."""
        begun: list[Message] = []  # answers to it, of which parts may be on their way
        while True:
            has_ended = self._has_ended(state)  # before the look: what it has answered has come by then
            for message in state.get_messages_legacy(is_reply=True):
                if message.metadata.reply_to_message_id == asked.metadata.message_id:
                    begun.append(message)
                else:
                    log(WARN, "Dropping an answer to message %s, which was given up", _question(message))
                    _forget(message, state, store)
            whole = next((message for message in begun if _is_whole(message, store)), None)
            if whole is not None or has_ended:
                for message in begun:
                    if message is not whole:
                        _forget(message, state, store)
                return whole or self._error(asked, state, store)
            if seconds_expired(asked) > 0 and self._is_given_up(state):
                _is_passed_over(asked)
                _forget(asked, state, store)
                return None
            self._sleep(PARTS_LOOK if begun else LOOK)

    def _error(self, asked: Message, state: Any, store: Any) -> Message:
        """Answer in place of a task that has ended without an answer."""
        log(WARN, "The client ended without an answer to message %s", _question(asked))
        state.record_message_processing_start(asked.metadata.message_id)
        state.record_message_processing_end(asked.metadata.message_id)
        error = Message(CLIENT_APP_CRASHED_ERROR, reply_to=asked)
        self._insert(error, state, store)
        return error

    def _wait_for_the_end(self, state: Any) -> None:
        """Wait until the task that has answered has handed over its memory, too."""
        while not self._has_ended(state):
            self._sleep(PARTS_LOOK)

    def _status(self, state: Any) -> Any:
        tasks = state.get_tasks(task_ids=[self._task]) if self._task is not None else []
        return tasks[0].status.status if tasks else Status.FINISHED

    def _has_ended(self, state: Any) -> bool:
        return bool(self._status(state) == Status.FINISHED)

    def _is_given_up(self, state: Any) -> bool:
        """End the task if no process has taken it yet; return whether it was ended."""
        why = "its message has expired"
        return self._status(state) == Status.PENDING and bool(state.finish_task(self._task, SubStatus.STOPPED, why))


class _TaskLast:
    """A SuperNode's state in which a task is created when `create_it` is called."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._about: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def create_task(self, **about: Any) -> int:
        self._about = about
        return LATER

    def finish_task(self, *_: Any, **__: Any) -> None:
        """Ignore the end of a task that was not created: Flower could not get the whole message."""

    def create_it(self) -> int | None:
        task: int | None = self._state.create_task(**self._about)
        return task


class _Answered:
    """A SuperNode's state that has one answer."""

    def __init__(self, state: Any, answer: Message) -> None:
        self._state, self._answer = state, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def get_messages_legacy(self, **_: Any) -> list[Message]:
        return [self._answer]


def _is_passed_over(message: Message) -> bool:
    """Return whether a message has expired; log it."""
    seconds = seconds_expired(message)
    if seconds > 0:
        log(
            WARN,
            "Passing over message %s, which expired %.1f s ago: this node was busy, or its clock is wrong",
            _question(message), seconds,
        )  # fmt: skip
    return seconds > 0


def _question(message: Message) -> str:
    """Return the name of a question, by the question itself or by an answer to it."""
    about = message.metadata
    return f"{(about.reply_to_message_id or about.message_id)[:8]} ({about.message_type} of run {about.run_id})"


def _is_whole(answer: Message, store: Any) -> bool:
    return all(map(store.get, names_in(store.get_object_tree(answer.metadata.message_id))))


def _forget(message: Message, state: Any, store: Any) -> None:
    """Delete a message and its parts."""
    state.delete_messages(message_ids=[message.metadata.message_id])
    store.delete(message.metadata.message_id)
