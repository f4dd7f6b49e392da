"""Messages as bytes: what comes back is what was sent, and nothing else comes back."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass

import pytest

from fedlearn.core.errors import Refused
from fedlearn.secure import texts
from fedlearn.secure.level import Level
from fedlearn.secure.protocol_messages import (
    Advertised,
    Delivered,
    Roster,
    Shared,
    Signed,
    Survivors,
    Unmasked,
    Unmasking,
)
from fedlearn.secure.question import Question

Q = Question("run", 2, 1)
MEMBERS = tuple(Advertised(Q, 10 - 7 * each, *(bytes([each]) * 32,) * 3, b"s" * 64) for each in range(3))
MESSAGES = [
    MEMBERS[0],
    Roster(Q, Level(3, 2, 2), MEMBERS),
    Shared(Q, 1, {1: b"ab", 2: b""}, {1: (b"a", b"b"), 2: (b"", b"cc")}, b"seed"),
    Delivered(Q, (0, 2), {2: b"xy"}, {2: (b"a", b"b")}),
    Survivors(Q, (0, 1, 2), (0, 2)),
    Signed(Q, -5, b"sig"),
    Unmasking(Q, {0: b"one"}),
    Unmasked(Q, 1, {2: 2**255 - 20}, {0: 0}),
]


def same(message, other):
    if is_dataclass(message):
        return type(message) is type(other) and all(
            same(getattr(message, each.name), getattr(other, each.name)) for each in fields(message)
        )
    return message == other


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back(message):
    data = texts.to_bytes(message)
    again = texts.from_bytes(type(message), data)
    assert same(message, again) and texts.to_bytes(again) == data


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_bytes_that_were_changed_are_refused_or_another_message(message):
    data, rng = texts.to_bytes(message), random.Random(7)
    for _ in range(400):
        spoiled = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(spoiled))
            match rng.randrange(3):
                case 0:
                    spoiled[place] = rng.randrange(256)
                case 1:
                    spoiled.insert(place, rng.choice(b'0123456789[],-{}"e.'))
                case _:
                    del spoiled[place]
        try:
            texts.from_bytes(type(message), bytes(spoiled))
        except Refused as refusal:
            assert refusal.reason == "undecodable"


OTHER = [b"", b"\n", b"[]", b"{}", b"null", b"\xff\xfe\n", b"[" * 10_000]
OTHER += [b'[["run",2,1],%s]\nsig' % end for end in (b"true,3", b"1.0,3", b"1,4", b"1,-1", b"1,2", b"1", b"1,3,3")]
OTHER += [b'[["run",%s],1,3]\nsig' % numbers for numbers in (b"-1,1", b"1,%d" % 2**64, b"1")]


@pytest.mark.parametrize("data", OTHER)
def test_other_bytes_are_refused(data):
    with pytest.raises(Refused, match="undecodable"):
        texts.from_bytes(Signed, data)


def test_an_entry_that_stands_twice_and_a_level_that_protects_nobody_are_refused():
    with pytest.raises(Refused, match="twice"):
        texts.from_bytes(Unmasked, b'[["run",2,1],1,[[2,5],[2,6]],[]]\n')
    with pytest.raises(Refused, match="more than half"):
        texts.from_bytes(Roster, b'[["run",2,1],[5,4,2,0],[]]\n')
