from __future__ import annotations

import time

from flwr.app import ConfigRecord, Message, RecordDict

from fedlearn import flower


def test_a_message_of_our_own_making_is_what_flower_makes():
    flower.enter_run()
    content = RecordDict({"config": ConfigRecord({"a": 1})})
    for named in ({}, {"ttl": 7.5}):
        ours, theirs = flower.message_to(content, 5, "train", **named), Message(content, 5, "train", **named)
        assert ours.content is theirs.content
        assert not ours.has_error()
        about, theirs_about = vars(ours.metadata), vars(theirs.metadata)
        assert about.keys() == theirs_about.keys()
        different = {name for name, value in about.items() if value != theirs_about[name]}
        assert different <= {"_created_at"}
        assert abs(ours.metadata.created_at - time.time()) < 60
