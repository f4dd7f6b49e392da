from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from flwr.app import RecordDict

from fedlearn import flower


def an_id() -> str:
    message = flower.message_to(RecordDict(), 2, "train")
    return flower.with_id(message).metadata.message_id


def tell_one(queue: SimpleQueue[str]) -> None:
    queue.put(an_id())


def test_no_two_messages_have_one_id_nor_do_those_of_a_process_that_was_forked():
    context = get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=tell_one, args=(queue,))
    child.start()
    theirs = queue.get()
    child.join()
    ours = [an_id() for _ in range(100)]
    assert len({theirs, *ours}) == 101
    assert theirs.partition("-")[0] != ours[0].partition("-")[0]


def test_a_message_can_be_named():
    message = flower.with_id(flower.message_to(RecordDict(), 2, "train"), "mine")
    assert message.metadata.message_id == "mine"


def test_a_reply_is_readdressed_and_nothing_else_of_it_changes():
    reply = flower.reply_from(node_id=7, message_type="train", reply_to="inner", content=RecordDict(), error=None)
    same = flower.readdressed(reply, reply_to="outer")
    assert same is reply
    about = same.metadata
    assert (about.reply_to_message_id, about.src_node_id, about.message_type) == ("outer", 7, "train")
