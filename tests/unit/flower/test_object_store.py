"""A node's claims about others' objects have no effect in Flower's SQL state and store, as our SuperLink runs them."""

from __future__ import annotations

import math
import os
import time
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import NOOP_FLWR_AID
from flwr.common.serde import message_to_proto, run_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PushAppMessagesRequest
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers
from starlette.exceptions import HTTPException

from fedlearn import flower, wire
from fedlearn.flower import object_store, superlink_middleware

QUESTION = RecordDict({wire.CONFIG: ConfigRecord({"round_number": 1, "attempt": 1})})
TABLES = ("objects", "object_children", "run_objects", "message_res", "object_push_sessions",
          "object_push_session_roots", "object_push_session_pending")  # fmt: skip


def name() -> str:
    return os.urandom(32).hex()


def poisoned(record, *children) -> ObjectTree:
    """Return the object of a record that somebody will send, with children that it does not have."""
    return ObjectTree(object_id=record.object_id, children=children or [ObjectTree(object_id=name())])


class Link:
    """A SuperLink's state, called as its server app and its nodes call it."""

    def __init__(self, folder):
        self.store = SqlObjectStore(f"{folder}/superlink.db")
        self.state = SqlLinkState(f"{folder}/superlink.db", NoOpFederationManager(), self.store)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of alembic's, about Flower's own files
            self.store.initialize()
            self.state.initialize()
        self.push_messages = partial(superlink_middleware.store_reply, fleet_handlers.push_messages)
        self.push_object = partial(superlink_middleware.store_part, fleet_handlers.push_object)

    def begin(self):
        """Begin a run with two nodes."""
        self.run = self.state.create_run(
            "x/y", "1", "hash", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        task = self.state.get_run_info(run_ids=[self.run])[0].primary_task_id
        self.state.claim_task(task)
        self.state.activate_task(task)
        self.nodes = [self.state.create_node(NOOP_FLWR_AID, "owner", os.urandom(40), 30.0) for _ in range(2)]
        for node in self.nodes:
            self.state.activate_node(node, 30.0)
        flower.TaskIdentity.run_id, flower.TaskIdentity.node_id, flower.TaskIdentity.task_id = self.run, 1, 1
        self.before = self.rows()

    def rows(self):
        return {table: self.state.query(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"] for table in TABLES}

    # --- the server -------------------------------------------------------------------------------------------------

    def announce(self, *contents, to=None):
        """Have the server announce messages; return them and the answer."""
        pairs = zip(contents, to or self.nodes[: len(contents)], strict=True)
        messages = [Message(content, node, wire.READY_QUERY, ttl=100.0) for content, node in pairs]
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
        request = PushAppMessagesRequest(
            messages_list=[message_to_proto(remove_content_from_message(each)) for each in messages],
            message_object_trees=[get_object_tree(each) for each in messages],
        )
        return messages, runtime_handlers.push_messages(request, self.state, SimpleNamespace(run_id=self.run))

    def upload(self, messages, answer, names=None):
        """Have the server send the parts that are asked for; return whether all were stored."""
        parts = {key: part for message in messages for key, part in get_all_nested_objects(message).items()}
        wanted = answer.objects_to_push if names is None else names
        return all(self.state.store_object(self.run, answer.session_id, each, parts[each].deflate()) for each in wanted)

    def send(self, *contents, to=None):
        messages, answer = self.announce(*contents, to=to)
        assert self.upload(messages, answer)
        return messages

    def heard(self, messages):
        """Return the replies that the server gets, and their names."""
        request = PullAppMessagesRequest(message_ids=[each.metadata.message_id for each in messages])
        told = runtime_handlers.pull_messages(request, self.state, SimpleNamespace(run_id=self.run))
        return [
            (about.metadata, [part.object_id for part in iterate_object_tree(parts)])
            for about, parts in zip(told.messages_list, told.message_object_trees, strict=True)
        ]

    # --- a node -----------------------------------------------------------------------------------------------------

    def receive(self, node, *, partly=False):
        """Fetch a message as a node does; return the names of its parts, and how many of them are there."""
        told = fleet_handlers.pull_messages(PullMessagesRequest(node=Node(node_id=node)), self.state, self.store)
        (about,), (tree,) = told.messages_list, told.message_object_trees
        pulls = [
            fleet_handlers.pull_object(
                PullObjectRequest(node=Node(node_id=node), run_id=self.run, object_id=part.object_id), self.state
            )
            for part in iterate_object_tree(tree)
        ]
        assert all(pull.object_found for pull in pulls)
        assert partly or all(pull.object_available for pull in pulls)
        return about, tree

    def request(self, asked, content=None, *, children=None, tree=None, error=None, work=1.0, **about):
        """Return the announcement of a reply."""
        node = asked.metadata.dst_node_id
        content = RecordDict() if content is None and error is None else content
        reply = flower.reply_from(
            node_id=node,
            message_type=wire.READY_QUERY,
            reply_to=asked.metadata.message_id,
            content=content,
            error=error,
        )
        truth = {"run_id": self.run, "created_at": time.time(), "ttl": 20.0, "group_id": "", "message_id": ""}
        for key, value in {**truth, **about}.items():
            reply.metadata.__dict__[f"_{key}"] = value
        reply.metadata.__dict__["_message_id"] = about.get("message_id") or reply.object_id
        told = tree or get_object_tree(reply)
        if children is not None:
            del told.children[:]
            told.children.extend(children)
        return reply, PushMessagesRequest(
            node=Node(node_id=node), messages_list=[message_to_proto(remove_content_from_message(reply))],
            message_object_trees=[told], clientapp_runtime_list=[work],
        )  # fmt: skip

    def reply(self, asked, content=None, *, upload=True, **how):
        """Have a node announce a reply, and send its parts; return the answer."""
        reply, request = self.request(asked, content, **how)
        answer = self.push_messages(request=request, state=self.state)
        parts = get_all_nested_objects(reply)
        for each in answer.objects_to_push if upload else ():
            part = PushObjectRequest(
                node=request.node, run_id=self.run, session_id=answer.session_id, object_id=each,
                object_content=parts[each].deflate() if each in parts else b"nothing",
            )  # fmt: skip
            self.push_object(request=part, state=self.state)
        return answer


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for each in ("preregister", "get_object_tree", "delete_objects_in_run"):
            patch.setattr(SqlObjectStore, each, getattr(SqlObjectStore, each))  # put back afterwards
        object_store.keep_trees_whole()
        yield Link(tmp_path_factory.mktemp("link"))


@pytest.fixture
def link(database):
    identity = flower.TaskIdentity.run_id, flower.TaskIdentity.node_id, flower.TaskIdentity.task_id
    database.begin()
    yield database
    database.state.cleanup_run(database.run)
    assert database.rows() == database.before  # whatever was said of the run's objects, nothing stays
    flower.TaskIdentity.run_id, flower.TaskIdentity.node_id, flower.TaskIdentity.task_id = identity


STATE = ArrayRecord([np.arange(4.0)])
FORETOLD = {
    "a ready query": RecordDict({wire.CONFIG: ConfigRecord({"round_number": 2, "attempt": 1})}),
    "an answer of another node": RecordDict({wire.CONFIG: ConfigRecord({"partition_id": 0, "why_not": ""})}),
    "an empty answer": RecordDict(),
    "metrics": RecordDict({wire.METRICS: MetricRecord({"num-examples": 3})}),
    "a state, and what goes with it": RecordDict({wire.ARRAYS: STATE, wire.CONFIG: ConfigRecord({"server-round": 2})}),
}


def objects_in(content):
    """Return what a message with this content has as parts, but for the message."""
    return list(get_all_nested_objects(content).values())


@pytest.mark.parametrize("content", FORETOLD.values(), ids=FORETOLD)
@pytest.mark.parametrize("is_sent", [True, False])
def test_a_foretold_record_with_other_children_is_sent_whole_all_the_same(link, content, is_sent):
    hostile, _ = link.send(QUESTION, QUESTION)
    lies = [poisoned(each) for each in objects_in(content)]
    answer = link.reply(hostile, children=[ObjectTree(object_id=name(), children=lies)], upload=False)
    for each in objects_in(content) if is_sent else ():
        part = PushObjectRequest(
            run_id=link.run, session_id=answer.session_id, object_id=each.object_id, object_content=each.deflate()
        )
        assert link.push_object(request=part, state=link.state).stored
    messages = link.send(content, to=link.nodes[1:])  # of the server
    link.receive(link.nodes[1])  # the one from before
    _, tree = link.receive(link.nodes[1])
    assert tree == get_object_tree(messages[0])


@pytest.mark.parametrize("content", FORETOLD.values(), ids=FORETOLD)
def test_another_nodes_reply_is_taken_and_read_whatever_was_said_of_its_parts(link, content):
    hostile, honest = link.send(QUESTION, QUESTION)
    lies = [poisoned(each) for each in objects_in(content)]
    link.reply(hostile, children=[ObjectTree(object_id=name(), children=lies)], upload=False)
    answer = link.reply(honest, content)
    assert answer.objects_to_push
    ((about, names),) = [each for each in link.heard([hostile, honest]) if each[0].src_node_id == link.nodes[1]]
    assert all(link.state.get_object(link.run, each) for each in names)
    assert set(names) == {*get_all_nested_objects(content), about.message_id}


def test_a_record_that_is_named_as_a_message_stays_a_record(link):
    hostile, _ = link.send(QUESTION, QUESTION)
    record = FORETOLD["metrics"][wire.METRICS]
    link.reply(hostile, tree=poisoned(record), message_id=record.object_id, upload=False)
    (message,) = link.send(FORETOLD["metrics"], to=link.nodes[1:])
    link.receive(link.nodes[1])
    _, tree = link.receive(link.nodes[1])
    assert tree == get_object_tree(message)


def test_what_the_server_has_announced_and_not_yet_sent_stays_as_it_said(link):
    hostile, _ = link.send(QUESTION, QUESTION)
    content = FORETOLD["a state, and what goes with it"]
    messages, answer = link.announce(content, to=link.nodes[1:])
    lies = [poisoned(each) for each in objects_in(content)]
    said = link.reply(hostile, children=[ObjectTree(object_id=name(), children=lies)], upload=False)
    fleet_handlers.confirm_message_received(
        ConfirmMessageReceivedRequest(run_id=link.run, message_object_id=next(iter(said.results))),
        link.state,
        link.store,
    )
    assert link.upload(messages, answer)
    link.receive(link.nodes[1])
    link.receive(link.nodes[1])


def test_a_part_that_names_no_session_is_not_put_into_the_servers(link):
    messages, answer = link.announce(QUESTION)
    record = QUESTION[wire.CONFIG]
    part = PushObjectRequest(run_id=link.run, object_id=record.object_id, object_content=record.deflate())
    with pytest.raises(HTTPException):
        link.push_object(request=part, state=link.state)
    assert link.upload(messages, answer)


def test_a_reply_by_the_name_of_a_question_does_not_end_its_sending(link):
    messages, answer = link.announce(QUESTION)
    told, tree = link.receive(link.nodes[0], partly=True)
    with pytest.raises(HTTPException):
        link.reply(messages[0], message_id=told.metadata.message_id, tree=tree)
    assert link.upload(messages, answer)


def test_messages_that_name_one_another_go_with_the_run(link):
    first, second = link.send(QUESTION, QUESTION)
    roots = name(), name()
    for asked, mine, other in zip((first, second), roots, reversed(roots), strict=True):
        children = [ObjectTree(object_id=name(), children=[ObjectTree(object_id=other)])]
        link.reply(asked, message_id=mine, tree=ObjectTree(object_id=mine, children=children), upload=False)


def test_a_question_is_answered_once(link):
    asked, _ = link.send(QUESTION, QUESTION)
    link.reply(asked, upload=False)
    before = link.rows()
    for _ in range(3):
        assert not link.reply(asked).objects_to_push
    assert link.rows() == before


def test_one_answer_has_one_tree(link):
    asked, _ = link.send(QUESTION, QUESTION)
    root = name()
    for kept in (True, False):
        tree = ObjectTree(object_id=root, children=[ObjectTree(object_id=name())])
        if kept:
            link.reply(asked, message_id=root, tree=tree, upload=False)
            before = link.rows()
            link.reply(asked, message_id=root, tree=tree, upload=False)  # as one does whose answer was lost
        else:
            with pytest.raises(ValueError, match="with other parts"):
                link.reply(asked, message_id=root, tree=tree, upload=False)
    assert link.rows() == before


def test_what_answers_no_question_leaves_nothing(link):
    asked, other = link.send(QUESTION, QUESTION)
    before = link.rows()
    for about in (
        {"reply_to_message_id": name()},
        {"reply_to_message_id": other.metadata.message_id},  # asked of another node
        {"created_at": time.time() - 1000},
        {"dst_node_id": link.nodes[1]},
        {"ttl": 1e6},
    ):
        assert not link.reply(asked, **about).objects_to_push
    with pytest.raises((FlowerError, KeyError)):
        link.reply(asked, run_id=12345)
    assert link.rows() == before


@pytest.mark.parametrize("about", [{"created_at": math.nan}, {"ttl": math.nan}, {"ttl": math.inf}])
def test_a_time_that_is_none_is_refused(link, about):
    asked, honest = link.send(QUESTION, QUESTION)
    with pytest.raises(HTTPException):
        link.reply(asked, **about)
    link.reply(honest, RecordDict())
    assert len(link.heard([asked, honest])) == 1


@pytest.mark.parametrize("work", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_work_that_cannot_be_is_not_added_up(link, work):
    asked, other = link.send(QUESTION, QUESTION)
    link.reply(asked, work=work)
    link.reply(other, work=2.5)
    (run,) = link.state.get_run_info(run_ids=[link.run])
    assert run_to_proto(run).clientapp_runtime == 2.5


def test_an_error_has_no_parts(link):
    asked, other = link.send(QUESTION, QUESTION)
    link.reply(asked, error=Error(1, "it failed"))
    with pytest.raises(HTTPException):
        link.reply(other, error=Error(1, "it failed"), children=[ObjectTree(object_id=name())])
    assert len(link.heard([asked, other])) == 1


def chain(length):
    tree = ObjectTree(object_id=name())
    for _ in range(length - 1):
        tree = ObjectTree(object_id=name(), children=[tree])
    return tree


def wide(number):
    return [ObjectTree(object_id=name()) for _ in range(number)]


SHAPES = {
    "two contents": wide(2),
    "too many records": [ObjectTree(object_id=name(), children=wide(superlink_middleware.MOST_RECORDS + 1))],
    "too many parts": [
        ObjectTree(
            object_id=name(),
            children=[ObjectTree(object_id=name(), children=wide(superlink_middleware.MOST_PARTS - 2))],
        )
    ],
    "too deep": [chain(5)],
}


@pytest.mark.parametrize("children", SHAPES.values(), ids=SHAPES)
def test_a_tree_that_no_reply_has_is_refused_before_the_database_is_asked(link, children):
    asked, _ = link.send(QUESTION, QUESTION)
    _, request = link.request(asked, children=children)
    with pytest.raises(HTTPException):
        link.push_messages(request=request, state=None)


def test_the_largest_tree_of_a_reply_is_a_few_statements(link):
    asked, _ = link.send(QUESTION, QUESTION)
    record = ObjectTree(object_id=name(), children=wide(superlink_middleware.MOST_PARTS - 3))
    begin = time.monotonic()
    answer = link.reply(asked, children=[ObjectTree(object_id=name(), children=[record])], upload=False)
    assert len(answer.objects_to_push) == superlink_middleware.MOST_PARTS
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("bad", ["x" * 64, "A" * 64, "0x" + "1" * 62, "a" * 63, "", "tree of " + "a" * 64])
def test_a_name_that_is_none_is_refused(link, bad):
    asked, _ = link.send(QUESTION, QUESTION)
    before = link.rows()
    with pytest.raises(HTTPException):
        link.reply(asked, children=[ObjectTree(object_id=bad)])
    assert link.rows() == before


def test_a_name_that_is_none_is_not_stored(link):
    with pytest.raises(ValueError, match="is not the name of an object"):
        link.store.preregister(link.run, ObjectTree(object_id=name(), children=[ObjectTree(object_id="x")]))


def test_objects_go_with_the_last_message_that_has_them(link):
    shared = RecordDict({wire.ARRAYS: STATE})
    messages = link.send(shared, shared)
    for message, is_kept in zip(messages, (True, False), strict=True):
        assert STATE.object_id in link.store
        link.store.delete(message.metadata.message_id)
        assert (STATE.object_id in link.store) is is_kept
    assert link.rows() == link.before | {"object_push_sessions": link.rows()["object_push_sessions"]}
