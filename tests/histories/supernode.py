"""A SuperNode in this process: Flower's own loop and state, as our SuperNode changes them, and tasks that may die."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import flwr.supernode.fleet_http_connection as connection
import flwr.supernode.start_client_internal as internal
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, context_to_proto, message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.servicer.runtime import runtime_handlers

from fedlearn.flower.enclosed import SMALL, enclose_in_supernode
from fedlearn.flower.one_at_a_time import seconds_expired
from fedlearn.flower.prompt_supernode import handle_one_at_a_time
from tests.histories.superlink import FLEET, Calls

TICK, IDLE = 0.005, 0.1  # seconds of a pause, and of one after the answer that there is no message
SAID, COUNT = "said", "count"
STEPS = ("acquired", "begun", "read", "answering", "answered", "ended")
"""What a task has done when it may die: nothing, got its input, read its message, announced its answer, sent all of the
answer, handed over its memory."""


class Killed(BaseException):
    """The SuperNode was killed."""


class SuperNode:
    """One life of a SuperNode, in a thread.

    Parameters
    ----------
    link
        The SuperLink.
    key
        The public key by which the node is registered.
    before
        Called with the name of each call to the SuperLink, before the call is made.
    mended
        Whether the loop handles one message at a time; Flower's own, with our parts and pauses, if not.
    """

    def __init__(self, link, key, *, before=lambda name: None, mended=True):
        self.is_killed = False
        self.failed = None
        calls = type("Fleet", (Calls,), {name: _forwarded(name) for name in FLEET})

        def before_unless_killed(name):
            before(name)
            self.look()

        own = _copy_of(connection)
        own.FleetHttpClient = SimpleNamespace(from_server_address=lambda *_, **__: _Open(self.calls))
        own.public_key_to_bytes, own.NodeAuthHttpInterceptor = lambda _: key, lambda *_: None
        own.HeartbeatSender = lambda _: SimpleNamespace(start=lambda: None, stop=lambda: None, is_running=True)
        loop = _copy_of(internal)
        loop.http_request_response = own.http_request_response
        loop.register_signal_handlers = lambda **_: None
        loop.get_fused_config_from_fab = lambda *_: {}
        loop.time = SimpleNamespace(sleep=self.sleep)
        self.calls = calls(link, FLEET, before=before_unless_killed)
        enclose_in_supernode(loop, calls)
        if mended:
            handle_one_at_a_time(loop)
        factory = NodeStateFactory(ObjectStoreFactory())
        self.state = factory.state()
        self._start = lambda: loop.start_client_internal(
            state_factory=factory, server_address="127.0.0.1:1", node_config={}, insecure=False, isolation="process",
            root_certificates=None, authentication_keys=(None, None),
        )  # fmt: skip
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self._start()
        except Killed:
            pass
        except BaseException as error:
            self.failed = error

    def look(self):
        """End here, if the SuperNode was killed."""
        if self.is_killed:
            raise Killed

    def sleep(self, seconds):
        """Sleep for a tick; where the loop sleeps for seconds, until a server app has sent something."""
        if seconds < 1:
            time.sleep(TICK)
        else:
            with self.calls.link.news:
                self.calls.link.news.wait(IDLE)
        self.look()

    def kill(self):
        """Kill the SuperNode, and wait for its end."""
        self.is_killed = True
        self.thread.join(30)
        assert not self.thread.is_alive()

    @property
    def left(self):
        """What is left of messages: themselves, their parts, tasks that could run."""
        tasks = [task for task in self.state.get_tasks() if task.status.status != "finished"]
        return [*tasks, *self.state.msg_store.values(), *self.state.object_store.store]


class Executor(threading.Thread):
    """The tasks of one SuperNode, as its executor and their processes handle them: each process is a thread.

    Parameters
    ----------
    fate
        Returns, for each message, the step after which its process dies (None: not at all), whether the executor says
        so, and the seconds that the process works.
    before
        Called with the name of each step before it is taken.
    """

    def __init__(self, node, fate=lambda: (None, True, 0.0), before=lambda name: None):
        super().__init__(daemon=True)
        self.node, self.fate, self.before, self.failed = node, fate, before, None
        self.stopped = self.is_away = False
        self.begun = []  # what each message said that a process has read, and for how long it had expired
        self.start()

    def run(self):
        """Take tasks until stopped."""
        while not self.stopped and not self.node.is_killed:
            time.sleep(TICK)
            if self.is_away:
                continue
            request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
            answer = runtime_handlers.acquire_task(request, self.node.state)
            if answer.token:
                threading.Thread(target=self.work_at, args=(answer.token,), daemon=True).start()

    def work_at(self, token):
        """Be the process of a task."""
        try:
            Process(self, token).run()
        except Exception as error:
            self.failed = error


class Process:
    """The process of one task; it dies without a word where its token holds no more."""

    def __init__(self, executor, token):
        self.executor, self.token, self.state = executor, token, executor.node.state
        self.asked = self.context = None
        self.task = self.state.get_task_by_token(token)

    def call(self, handler, request):
        task = self.state.get_task_by_token(self.token)
        if task is None:
            raise PermissionError
        return handler(request, self.state, task)

    def run(self):
        with suppress(PermissionError, FlowerError):
            self.work()

    def work(self):
        dies_after, is_said, seconds = self.executor.fate()
        for name in STEPS:
            self.executor.before(name)
            if name != "acquired" and not getattr(self, name)():
                return
            if name == "read":
                time.sleep(seconds)
            if name == dies_after:
                self.die(is_said and self.asked is not None)
                return

    def begun(self):
        come = self.call(runtime_handlers.pull_task_input, PullTaskInputRequest())
        self.context = context_from_proto(come.context)
        return True

    def read(self):
        come = self.call(runtime_handlers.pull_messages, PullAppMessagesRequest())
        if not come.messages_list:  # Flower's process raises then, and ends its task without an answer
            self.output(SubStatus.FAILED)
            return False
        tree = come.message_object_trees[0]
        parts = {}
        for part in iterate_object_tree(tree):
            while not (content := self.pull(part.object_id)):
                time.sleep(TICK)
            parts[part.object_id] = content
        confirm = ConfirmMessageReceivedRequest(message_object_id=tree.object_id)
        self.call(runtime_handlers.confirm_message_received, confirm)
        self.asked = inflate_object_from_contents(tree.object_id, parts)
        self.asked.metadata.__dict__["_message_id"] = tree.object_id
        self.executor.begun.append((self.asked.content[SAID][SAID], seconds_expired(self.asked)))
        return True

    def pull(self, name):
        pulled = self.call(runtime_handlers.pull_object, PullObjectRequest(object_id=name))
        if not pulled.object_found:
            raise PermissionError
        return pulled.object_content

    def answering(self):
        memory = self.context.state
        count = memory[COUNT][COUNT] + 1 if COUNT in memory else 1
        memory[COUNT] = ConfigRecord({COUNT: count})
        content = RecordDict({SAID: ConfigRecord({SAID: self.asked.content[SAID][SAID], COUNT: count})})
        if "arrays" in self.asked.content:
            content["arrays"] = self.asked.content["arrays"]
        self.answer = Message(content, reply_to=self.asked)
        self.announce()
        return True

    def announce(self):
        self.answer.metadata.__dict__["_message_id"] = self.answer.object_id
        with no_object_id_recompute():
            request = PushAppMessagesRequest(
                messages_list=[message_to_proto(remove_content_from_message(self.answer))],
                message_object_trees=[get_object_tree(self.answer)],
            )
            self.told = self.call(runtime_handlers.push_messages, request)

    def answered(self):
        parts = get_all_nested_objects(self.answer)
        for name in self.told.objects_to_push:
            part = PushObjectRequest(
                session_id=self.told.session_id, object_id=name, object_content=parts[name].deflate()
            )
            assert self.call(runtime_handlers.push_object, part).stored
        return True

    def ended(self):
        self.output(SubStatus.COMPLETED)
        return True

    def output(self, how):
        context = context_to_proto(self.context) if how == SubStatus.COMPLETED else None
        self.call(runtime_handlers.push_task_output, PushTaskOutputRequest(context=context, sub_status=how))

    def die(self, is_said):
        """End without another word; the executor answers in its place, or its sign of life is missed a minute later."""
        if is_said:
            self.answer = Message(Error(ErrorCode.CLIENT_APP_CRASHED, "it died"), reply_to=self.asked)
            self.announce()
            self.answered()
            self.output(SubStatus.FAILED)
            return
        with self.state.lock_task_store:
            record = self.state.task_token_store.get(self.task.task_id)
            if record is not None:
                record.active_until = datetime.fromtimestamp(0, UTC)


def question(node_id, said, *, ttl, is_large=False):
    """Return a question to a node, whose process repeats the words of the question in its answer."""
    content = RecordDict({SAID: ConfigRecord({SAID: said})})
    if is_large:
        content["arrays"] = ArrayRecord({"a": Array(np.arange(SMALL // 8, dtype=np.float64))})
    return Message(content, node_id, "query", ttl=ttl)


def _forwarded(name):
    return lambda self, request: self.call(name, request)


def _copy_of(module):
    """Return a copy of a module, whose names can be replaced for one SuperNode."""
    spec = spec_from_file_location(module.__name__, module.__file__)
    own = module_from_spec(spec)
    spec.loader.exec_module(own)
    return own


class _Open:
    """A client of the SuperLink, as `with` wants it."""

    def __init__(self, calls):
        self.calls = calls

    def __enter__(self):
        return self.calls

    def __exit__(self, *_):
        pass
