"""Small parts travel with the announcement of their message, and are stored as others are."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PushAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers
from starlette.exceptions import HTTPException

from fedlearn import wire
from fedlearn.flower import enclosed, replies, superlink_middleware
from tests.unit.flower.test_object_store import Link, database, link  # noqa: F401, fixtures

ANSWER = RecordDict({wire.CONFIG: ConfigRecord({"partition_id": 0, "why_not": ""})})
LARGE = RecordDict({wire.ARRAYS: ArrayRecord([np.arange(enclosed.SMALL // 8, dtype=np.float64)])})
server_push = enclosed.storing_enclosed(runtime_handlers.push_messages, runtime_handlers.push_object)
server_pull = enclosed.enclosing(runtime_handlers.pull_messages)
node_pull = enclosed.enclosing(fleet_handlers.pull_messages)
store_part = partial(superlink_middleware.store_part, fleet_handlers.push_object)
node_push = enclosed.storing_enclosed(
    partial(superlink_middleware.store_reply, fleet_handlers.push_messages), store_part
)


def parts_of(message):
    return {name: part.deflate() for name, part in get_all_nested_objects(message).items()}


def asked(link, content, parts=None):  # noqa: F811
    """Have the server send a message with these parts enclosed, by default all; return message, answer, parts."""
    message = Message(content, link.nodes[0], wire.READY_QUERY, ttl=100.0)
    message.metadata.__dict__["_message_id"] = message.object_id
    request = PushAppMessagesRequest(
        messages_list=[message_to_proto(remove_content_from_message(message))],
        message_object_trees=[get_object_tree(message)],
    )
    every = parts_of(message)
    request = enclosed.enclose(request, every if parts is None else parts(every))
    return message, server_push(request, link.state, SimpleNamespace(run_id=link.run)), every


def smallest(parts):
    """Return the parts that a server encloses."""
    return enclosed.small(sorted(parts.items(), key=lambda part: len(part[1])))


def received(link, question):  # noqa: F811
    """Return what the node gets with the announcement of a question."""
    request = PullMessagesRequest(node=Node(node_id=question.metadata.dst_node_id))
    return enclosed.enclosed_in(node_pull(request=request, state=link.state, store=link.store))


def heard(link, question):  # noqa: F811
    request = PullAppMessagesRequest(message_ids=[question.metadata.message_id])
    return enclosed.enclosed_in(server_pull(request, link.state, SimpleNamespace(run_id=link.run)))


def confirm(link, *messages):  # noqa: F811
    for message in messages:
        link.store.delete(message.metadata.message_id)


def test_an_announcement_stays_what_it_was_for_who_does_not_know_the_field():
    request = PushMessagesRequest(node=Node(node_id=3), clientapp_runtime_list=[1.5])
    plain = request.SerializeToString()
    assert enclosed.enclosed_in(request) == {}
    request = enclosed.enclose(request, {"a": b"\x00\xff", "b": b""})
    come = PushMessagesRequest.FromString(request.SerializeToString())
    assert enclosed.enclosed_in(come) == {"a": b"\x00\xff", "b": b""}
    come.DiscardUnknownFields()
    assert come.SerializeToString() == plain


def test_a_question_and_its_answer_take_one_request_each(link):  # noqa: F811
    question, answer, parts = asked(link, ANSWER)
    assert list(answer.objects_to_push) == []
    assert received(link, question) == parts
    confirm(link, question)
    reply, request = link.request(question, ANSWER)
    request = enclosed.enclose(request, parts_of(reply))
    assert list(node_push(request=request, state=link.state).objects_to_push) == []
    assert heard(link, question) == parts_of(reply)
    confirm(link, reply)


def test_large_parts_are_asked_for_and_sent_by_requests_of_their_own(link):  # noqa: F811
    question, answer, parts = asked(link, LARGE, parts=smallest)
    large = [name for name, content in parts.items() if len(content) > enclosed.SMALL]
    assert large
    assert list(answer.objects_to_push) == large
    assert received(link, question) == {name: content for name, content in parts.items() if name not in large}
    assert all(link.state.store_object(link.run, answer.session_id, name, parts[name]) for name in large)


def test_a_part_with_another_content_than_its_name_says_is_asked_for_again(link):  # noqa: F811
    question, _, _ = asked(link, ANSWER)
    reply, request = link.request(question, RecordDict({wire.CONFIG: ConfigRecord({"partition_id": 1})}))
    parts = parts_of(reply)
    spoiled = next(name for name in parts if name != reply.object_id)
    request = enclosed.enclose(request, {**parts, spoiled: b"another content"})
    answer = node_push(request=request, state=link.state)
    assert list(answer.objects_to_push) == [spoiled]
    assert spoiled not in heard(link, question)
    part = PushObjectRequest(
        node=request.node,
        run_id=link.run,
        session_id=answer.session_id,
        object_id=spoiled,
        object_content=parts[spoiled],
    )
    assert store_part(request=part, state=link.state).stored
    assert link.store.get(spoiled) == parts[spoiled]


def test_parts_that_no_message_has_are_not_stored(link):  # noqa: F811
    before = link.rows()["objects"]
    question, answer, _ = asked(link, ANSWER, parts=lambda every: {**every, "0" * 64: b"more", "": b"", "x": b"y"})
    assert list(answer.objects_to_push) == []
    assert link.rows()["objects"] == before + len(parts_of(question)) + 1  # and the tree
    assert "0" * 64 not in link.store


@pytest.mark.parametrize(
    ("field", "status"),
    [(b"\xca\xb5\x03\x05\x0a\x02\xff\xfe\x12", 400), (b"\xca\xb5\x03\x04\x0a\x02\xff\xfe", 400)],
    ids=["cut short", "a name that is no text"],
)
def test_a_field_that_cannot_be_read_is_refused_before_anything_is_stored(link, field, status):  # noqa: F811
    question, _, _ = asked(link, ANSWER)
    _, request = link.request(question, ANSWER)
    before = link.rows()
    data = request.SerializeToString() + field
    told = SimpleNamespace(SerializeToString=lambda: data)
    with pytest.raises(HTTPException) as refused:
        node_push(request=told, state=link.state)
    assert refused.value.status_code == status
    assert link.rows() == before


def test_a_reply_in_another_nodes_name_leaves_nothing_behind(link):  # noqa: F811
    question, _, _ = asked(link, ANSWER)
    reply, request = link.request(question, ANSWER)
    request.node.node_id = link.nodes[1]
    request = enclosed.enclose(request, parts_of(reply))
    before = link.rows()
    with pytest.raises(HTTPException):
        node_push(request=request, state=link.state)
    assert link.rows() == before


def test_a_message_goes_with_the_parts_that_no_other_message_has(link):  # noqa: F811
    first, _, mine = asked(link, ANSWER)
    second, _, _ = asked(link, ANSWER)
    assert first.metadata.message_id != second.metadata.message_id
    shared = set(mine) - {first.object_id}
    assert received(link, first) == mine
    confirm(link, first, first)  # the second time there is nothing to do
    assert first.object_id not in link.store
    assert all(link.store.get(name) == mine[name] for name in shared)
    assert received(link, second) == parts_of(second)
    for name in shared:
        link.store.delete(name)  # which a message has: it stays
    assert all(name in link.store for name in shared)
    confirm(link, second)
    assert not any(name in link.store for name in shared)


def test_an_error_has_one_part(link):  # noqa: F811
    question, _, _ = asked(link, ANSWER)
    reply, request = link.request(question, error=Error(0, "broken"))
    request = enclosed.enclose(request, parts_of(reply))
    assert list(node_push(request=request, state=link.state).objects_to_push) == []
    assert heard(link, question) == parts_of(reply)
    confirm(link, reply)


def test_a_server_encloses_the_parts_of_what_it_sends():
    messages = [Message(content, 7, "train", ttl=9.0) for content in (ANSWER, LARGE)]
    announced = []

    class Client:
        def PushMessages(self, request):
            announced.append(request)

    client = Client()
    grid = SimpleNamespace(_runtime_client=client)
    grid.push_messages = lambda some: (
        client.PushMessages(PushAppMessagesRequest()) or [str(len(each.metadata.message_id)) for each in some]
    )
    assert len(replies.push(grid, messages)) == 2
    parts = {**parts_of(messages[0]), **parts_of(messages[1])}
    assert enclosed.enclosed_in(announced[0]) == {
        name: content for name, content in parts.items() if len(content) < enclosed.SMALL
    }
    client.PushMessages(PushAppMessagesRequest())
    assert enclosed.enclosed_in(announced[1]) == {}  # the client is as it was


class Calls:
    """A SuperNode's calls to a SuperLink that sends some parts with messages."""

    come = None

    def __init__(self):
        self.pulled, self.pushed = [], None

    def PullMessages(self, request):
        return enclosed.enclose(PullMessagesResponse(), self.come or {})

    def PullObject(self, request):
        self.pulled.append(request.object_id)
        return PullObjectResponse(object_found=True, object_available=True, object_content=b"asked for")

    def PushMessages(self, request):
        self.announced = request.SerializeToString()
        self.pushed = enclosed.enclosed_in(request)


@pytest.fixture
def supernode():
    """Return a SuperNode's loop, with a class of its calls of its own."""
    kind = type(
        "OwnCalls", (Calls,), {name: getattr(Calls, name) for name in ("PullMessages", "PullObject", "PushMessages")}
    )
    loop = SimpleNamespace(kind=kind, _push_messages=lambda **given: given["send"]())
    enclosed.enclose_in_supernode(loop, kind)
    return loop


def test_a_supernode_asks_for_the_parts_that_have_not_come(supernode):
    calls = supernode.kind()
    supernode.kind.come = {"a": b"came"}
    calls.PullMessages(PullMessagesRequest())
    pull = lambda name: calls.PullObject(PullObjectRequest(object_id=name)).object_content  # noqa: E731
    assert (pull("a"), pull("b"), pull("a")) == (b"came", b"asked for", b"asked for")
    supernode.kind.come = {}
    calls.PullMessages(PullMessagesRequest())
    assert calls.pulled == ["b", "a"]


def test_an_announcement_that_is_tried_again_is_no_longer(supernode):
    reply = Message(ANSWER, 1, "train", ttl=9.0)
    request = PushMessagesRequest(message_object_trees=[get_object_tree(reply)])
    plain, calls, lengths = request.SerializeToString(), supernode.kind(), []

    def twice():
        for _ in range(2):  # as Flower does after a 503
            calls.PushMessages(request)
            lengths.append(len(calls.announced))

    supernode._push_messages(object_store=parts_of(reply), send=twice)
    assert calls.pushed == parts_of(reply)
    assert lengths[0] == lengths[1] > len(plain)
    assert request.SerializeToString() == plain


def test_of_the_large_parts_of_a_message_one_is_read_in_vain(link, monkeypatch):  # noqa: F811
    state = {name: np.full(enclosed.SMALL // 8, value) for value, name in enumerate("abcdef")}
    content = RecordDict({wire.ARRAYS: ArrayRecord({name: Array(array) for name, array in state.items()})})
    question, answer, parts = asked(link, content, parts=smallest)
    assert link.upload([question], answer)
    read = []
    get = link.store.get
    monkeypatch.setattr(link.store, "get", lambda name: read.append(len(content := get(name) or b"")) or content)
    come = received(link, question)
    assert sum(size > enclosed.SMALL for size in read) == 1
    assert question.object_id in come
    assert set(come) < set(parts)
