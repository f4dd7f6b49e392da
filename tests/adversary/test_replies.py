"""A bad answer over a network fails its own node and no other; the words are those of the list of faults."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import add_header_to_object_body, get_all_nested_objects
from flwr.supercore.inflatable.inflatable_object import get_object_tree as tree_of
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError

from fedlearn import flower, wire
from fedlearn.flower.enclosed import enclose
from fedlearn.flower.replies import Replies
from server.exchange.grids import PatientGrid
from tests.waiting import wait_until

STATE = {"w": np.arange(4, dtype=np.float32)}


@pytest.fixture(autouse=True, params=["parts asked for", "parts enclosed"])
def ways(request, monkeypatch):
    """Every reply comes in both ways."""
    monkeypatch.setattr(Link, "encloses", request.param == "parts enclosed")


def reply_to(message_id, node_id=7):
    content = RecordDict({wire.ARRAYS: wire.pack_arrays(STATE)})
    reply = flower.reply_from(node_id=node_id, message_type="train", reply_to=message_id, content=content, error=None)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    return reply


class Told(SimpleNamespace):
    """What a SuperLink tells of replies, with some of their parts."""

    parts = None

    def SerializeToString(self):
        return enclose(PullAppMessagesResponse(), self.parts or {}).SerializeToString()


class Link:
    """A SuperLink with some replies; each of its objects can be spoiled or held back.

    Those of a class with `encloses` come with their announcement.
    """

    encloses = False

    def __init__(self, *replies):
        self.node, self.run = None, SimpleNamespace(run_id=1)
        self._runtime_client = self
        self.replies = list(replies)
        self.objects = {k: o.deflate() for reply in replies for k, o in get_all_nested_objects(reply).items()}
        self.held = set()
        self.confirmed = []

    def PullMessages(self, request):
        told, self.replies = (
            [r for r in self.replies if r.metadata.reply_to_message_id in request.message_ids],
            [r for r in self.replies if r.metadata.reply_to_message_id not in request.message_ids],
        )
        names = [name for reply in told for name in get_all_nested_objects(reply)] if self.encloses else ()
        come = {name: self.objects[name] for name in names if name in self.objects and name not in self.held}
        return Told(messages_list=told, message_object_trees=[tree_of(reply) for reply in told], parts=come)

    def PullObject(self, request):
        content = self.objects.get(request.object_id)
        available = content is not None and request.object_id not in self.held
        return PullObjectResponse(
            object_found=content is not None, object_available=available, object_content=content if available else b""
        )

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)


def pulled(replies, ids, seconds=5.0):
    """Everything that comes within some seconds, by the message that it answers."""
    found, end = {}, time.monotonic() + seconds
    while len(found) < len(ids) and time.monotonic() < end:
        found |= {r.metadata.reply_to_message_id: r for r in replies.pull([i for i in ids if i not in found])}
    return found


def test_replies_come_through_as_they_were_sent():
    link = Link(reply_to("a"), reply_to("b"))
    found = pulled(Replies(link), ["a", "b"])
    for reply in found.values():
        np.testing.assert_array_equal(wire.read_state(reply.content)["w"], STATE["w"])
    assert len(link.confirmed) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: b"\xff" * 23,
        lambda content: add_header_to_object_body(b"", SimpleNamespace(children=None)),
        lambda content: content[:-1],
        lambda content: content.replace(b"Message", b"Massage", 1),
        lambda content: content.replace(b"Message", b"RecordDict", 1),
    ],
)
def test_A1_a_reply_that_cannot_be_read_fails_alone(spoil):
    bad, good = reply_to("bad", 7), reply_to("good", 8)
    link = Link(bad, good)
    link.objects[bad.object_id] = spoil(link.objects[bad.object_id])
    found = pulled(Replies(link), ["bad", "good"])
    assert found["good"].has_content()
    assert found["bad"].has_error()
    assert found["bad"].metadata.src_node_id == 7
    assert "its reply cannot be read" in found["bad"].error.reason


def test_A2_a_reply_whose_parts_never_come_keeps_nobody_waiting():
    slow, good = reply_to("slow", 7), reply_to("good", 8)
    link = Link(slow, good)
    link.held = {slow.object_id}
    replies = Replies(link)
    begin = time.monotonic()
    found = replies.pull(["slow", "good"])
    found += replies.pull(["slow"])
    assert time.monotonic() - begin < 3  # it was 180 s
    assert [reply.metadata.reply_to_message_id for reply in found] == ["good"]
    link.held = set()
    assert pulled(replies, ["slow"])["slow"].has_content()  # and if they come after all, they are there


def test_a_reply_cannot_say_that_it_answers_another_nodes_message():
    """A reply's own claims of sender and question are not believed: the first answer to a message stands."""
    liar = reply_to("honest", 7)  # its bytes name a message that was sent to somebody else
    link = Link(liar)
    told = liar.metadata.__dict__
    about = SimpleNamespace(
        metadata=SimpleNamespace(
            message_id=liar.object_id, reply_to_message_id="lying", src_node_id=7, message_type="train"
        )
    )
    assert told["_reply_to_message_id"] == "honest"
    link.PullMessages = lambda request: Told(messages_list=[about], message_object_trees=[tree_of(liar)])
    (found,) = pulled(Replies(link), ["lying"]).values()
    assert (found.metadata.reply_to_message_id, found.metadata.src_node_id) == ("lying", 7)


def test_an_object_that_is_gone_fails_its_reply_alone():
    gone, good = reply_to("gone", 7), reply_to("good", 8)
    link = Link(gone, good)
    del link.objects[gone.object_id]
    found = pulled(Replies(link), ["gone", "good"])
    assert ObjectPullError.__name__ in found["gone"].error.reason
    assert found["good"].has_content()


def test_threads_end_with_their_replies():
    before = threading.active_count()
    replies = Replies(Link(*(reply_to(str(i), i + 2) for i in range(20))))
    assert len(pulled(replies, [str(i) for i in range(20)])) == 20
    wait_until(lambda: threading.active_count() <= before, "the threads to end", 5)
    assert not replies._coming


def test_a_message_is_asked_for_once_while_it_is_on_its_way():
    slow = reply_to("slow")
    link = Link(slow)
    link.held = {slow.object_id}
    asked = []
    pull = link.PullMessages
    link.PullMessages = lambda request: asked.append(list(request.message_ids)) or pull(request)
    replies = Replies(link)
    for _ in range(3):
        assert replies.pull(["slow"]) == []
    assert asked == [["slow"]]
    link.held = set()  # else its thread would go on beside other tests
    assert pulled(replies, ["slow"])


def answered_by(status):
    """The SuperLink's answer to a request, as Flower raises it."""
    return httpx.HTTPStatusError("refused", request=None, response=httpx.Response(status))


class Client:
    """A client of a SuperLink, which remembers what was announced."""

    announced = None

    def PushMessages(self, request):
        self.announced = request


class Sending:
    """A grid whose SuperLink fails over the messages to some nodes."""

    def __init__(self, error, *nodes):
        self._runtime_client = Client()
        self.error, self.nodes = error, set(nodes)
        self.sent = []

    def push_messages(self, messages):
        nodes = [message.metadata.dst_node_id for message in messages]
        if self.nodes & set(nodes):
            if self.error is None:
                return []  # as Flower does where they are too large together
            raise self.error
        self.sent += nodes
        return [f"to {node}" for node in nodes]


def queries(*nodes):
    return [wire.ready_query(node, round_number=1, attempt=1, ttl=10.0) for node in nodes]


@pytest.mark.parametrize(
    "error", [answered_by(500), answered_by(400), answered_by(413), ObjectPushError("a", 1, "b"), None]
)
def test_G3_a_message_that_cannot_be_sent_is_not_sent_and_all_others_are(error):
    sending = Sending(error, 8)
    assert PatientGrid(sending).push_messages(queries(7, 8, 9)) == ["to 7", "", "to 9"]
    assert sending.sent == [7, 9]


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_app_that_may_not_send_any_more_does_not_go_on(status):
    with pytest.raises(httpx.HTTPStatusError):
        PatientGrid(Sending(answered_by(status), 8)).push_messages(queries(7, 8, 9))


def test_G3_a_reply_that_the_superlink_fails_over_is_not_heard_and_all_others_are():
    link = Link(reply_to("bad", 7), reply_to("good", 8))
    pull = link.PullMessages

    def failing(request):
        if "bad" in request.message_ids:
            raise answered_by(500)
        return pull(request)

    link.PullMessages = failing
    assert list(pulled(Replies(link), ["bad", "good"], seconds=1.0)) == ["good"]
