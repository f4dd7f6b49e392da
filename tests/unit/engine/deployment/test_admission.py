"""Admission: of a request that must not come through, not a byte of the body is read."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256

import pytest
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message
from starlette.exceptions import HTTPException

from fedlearn.core.clock import ManualClock
from fedlearn.engine.deployment import admission
from fedlearn.engine.deployment.admission import MIB, Admission
from fedlearn.flower import superlink_middleware

PRIVATE, PUBLIC = generate_key_pairs()
STRANGER, _ = generate_key_pairs()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    known = public_key_to_bytes(PUBLIC)
    monkeypatch.setattr(superlink_middleware, "is_registered", lambda scope, key: key == known)


def signed(private=PRIVATE, public=PUBLIC, *, at=None):
    signed_at = (at or now()).isoformat()
    signature = b64encode(sign_message(private, signed_at.encode()))
    key = b64encode(public_key_to_bytes(public))
    return {b"flwr-public-key": key, b"flwr-timestamp": signed_at.encode(), b"flwr-signature": signature}


class Behind:
    """The app behind the admission: reads bodies, and answers 200."""

    def __init__(self, chunk=b"x", wait=0.0):
        self.read = []
        self.chunk, self.wait = chunk, wait
        self.admission = Admission(self._app)
        self.admission._started -= 60

    async def _app(self, scope, receive, send):
        self.read.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask(self, headers, path="/v1/fleet/push-object", size="1"):
        """Return the status, and how often the body was asked for."""
        asked, statuses = [], []

        async def receive():
            asked.append(1)
            await asyncio.sleep(self.wait)
            return {"type": "http.request", "body": self.chunk, "more_body": False}

        async def send(message):
            statuses.extend([message["status"]] if "status" in message else [])

        given = [*headers.items(), *([(b"content-length", size.encode())] if size else [])]
        await self.admission({"type": "http", "path": path, "headers": given, "method": "POST"}, receive, send)
        return statuses[0], len(asked)

    def say(self, headers, **about):
        return asyncio.run(self.ask(headers, **about))


def test_a_request_of_a_node_comes_through_once():
    behind, headers = Behind(), signed()
    assert behind.say(headers) == (200, 1)
    assert behind.say(headers) == (503, 0)
    assert behind.say(headers, path="/v1/fleet/deactivate-node") == (503, 0)
    assert behind.say(signed()) == (200, 1)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**signed(), b"flwr-signature": b"Zm9v"},
        {**signed(), b"flwr-signature": b"%%%"},
        {**signed(), b"flwr-public-key": b"Zm9v"},
        {**signed(), b"flwr-timestamp": b"yesterday"},
        {**signed(), b"flwr-timestamp": now().isoformat().encode()},
        signed(STRANGER, PUBLIC),
        signed(*generate_key_pairs()),
        signed(at=now() - timedelta(days=1)),
        signed(at=now() + timedelta(days=1)),
        signed(at=now().replace(tzinfo=None)),
    ],
)
def test_of_what_nobody_has_signed_who_was_let_in_no_body_is_read(headers):
    assert Behind().say(headers) == (401, 0)


def test_a_stranger_is_told_by_flower_that_he_is_one():
    behind, keys = Behind(), generate_key_pairs()
    assert behind.say(signed(*keys), path="/v1/fleet/activate-node") == (200, 1)
    assert behind.say(signed(*keys), path="/v1/fleet/pull-messages") == (401, 0)


def test_a_strangers_time_that_comes_again_costs_no_cryptography_and_strangers_keep_no_node_out(monkeypatch):
    monkeypatch.setattr(admission, "MOST_OF_STRANGERS", 2)
    behind, headers = Behind(), signed(*generate_key_pairs())
    assert behind.say(headers, path="/v1/fleet/register-node") == (200, 1)
    looks = []
    monkeypatch.setattr(superlink_middleware, "is_signed_by", lambda *said: looks.append(said))
    monkeypatch.setattr(superlink_middleware, "is_registered", lambda *said: looks.append(said))
    assert behind.say(headers, path="/v1/fleet/register-node") == (503, 0) and not looks
    monkeypatch.undo()
    known = public_key_to_bytes(PUBLIC)
    monkeypatch.setattr(superlink_middleware, "is_registered", lambda scope, key: key == known)
    statuses = [behind.say(signed(*generate_key_pairs()), path="/v1/fleet/register-node")[0] for _ in range(3)]
    assert statuses == [200, 503, 503]
    assert behind.say(signed()) == (200, 1)


@pytest.mark.parametrize(
    ("call", "most"),
    [
        ("push-object", 6 * MIB),
        ("push-messages", 2 * MIB),
        ("pull-messages", 4096),
        ("confirm-message-received", 4096),
    ],
)
def test_a_body_longer_than_a_call_has_is_not_read(call, most):
    assert Behind().say(signed(), path=f"/v1/fleet/{call}", size=str(most)) == (200, 1)
    assert Behind().say(signed(), path=f"/v1/fleet/{call}", size=str(most + 1)) == (413, 0)


@pytest.mark.parametrize("call", ["register-node", "activate-node"])
def test_a_stranger_says_no_more_than_a_key(call):
    keys = generate_key_pairs()
    assert Behind().say(signed(*keys), path=f"/v1/fleet/{call}", size="4096") == (200, 1)
    assert Behind().say(signed(*keys), path=f"/v1/fleet/{call}", size="4097") == (413, 0)


def test_other_doors_are_others_business():
    assert Behind().say({}, path="/v1/control/list-runs") == (200, 1)


def test_a_time_from_before_the_start_is_not_taken_as_it_may_have_been_used():
    behind = Behind()
    assert behind.say(signed(at=now() - timedelta(seconds=30))) == (200, 1)
    assert behind.say(signed(at=now() - timedelta(seconds=90))) == (503, 0)


def test_a_body_of_unknown_length_is_not_read():
    for size in ("", "-1", "1e3", "x"):
        assert Behind().say(signed(), size=size) == (411, 0)


def test_one_node_sends_so_much_at_a_time_and_all_of_them_so_much(monkeypatch):
    monkeypatch.setattr(admission, "UNDER_WAY", 20 * MIB)
    behind = Behind(wait=0.2)

    async def at_once(*sizes):
        return sorted(status for status, _ in await asyncio.gather(*(behind.ask(signed(), size=str(s)) for s in sizes)))

    assert asyncio.run(at_once(6 * MIB, 6 * MIB, 6 * MIB)) == [200, 200, 503]
    monkeypatch.setattr(admission, "UNDER_WAY", 10 * MIB)
    assert asyncio.run(at_once(6 * MIB, 6 * MIB)) == [200, 503]
    assert not behind.admission._under_way


def test_one_node_makes_so_many_requests_at_a_time_and_keeps_nobody_else_out():
    behind = Behind(wait=0.3)
    stranger = generate_key_pairs()

    async def at_once():
        mine = [behind.ask(signed()) for _ in range(admission.AT_ONCE + 4)]
        others = [behind.ask(signed(*stranger), path="/v1/fleet/activate-node") for _ in range(admission.AT_ONCE + 4)]
        return [[status for status, _ in await asyncio.gather(*some)] for some in (mine, others)]

    mine, others = asyncio.run(at_once())
    assert sorted(mine) == [200] * admission.AT_ONCE + [503] * 4
    assert set(others) == {200}
    assert not behind.admission._requests


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(admission, "BODY_SECONDS", 0.1)
    behind = Behind(wait=5.0)
    begin = time.monotonic()
    behind.say(signed())
    assert time.monotonic() - begin < 4.5
    assert behind.read == ["http.disconnect"]


def test_of_many_threads_one_uses_a_time():
    times, wins = admission.UsedTimes(300.0, most=10), []
    threads = [threading.Thread(target=lambda: wins.append(times.use(b"key", "noon"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wins) == 1


def test_times_are_forgotten_when_flower_takes_them_no_more(monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(admission.time, "monotonic", clock.now)
    times = admission.UsedTimes(300.0, most=2)
    assert [times.use(b"key", str(n)) for n in range(3)] == [True, True, False]
    clock.sleep(301.0)
    assert times.use(b"key", "0")
    assert len(times._used) == len(times._ends) == 1


@pytest.mark.parametrize(
    ("about", "is_own"),
    [
        ({"src_node_id": 7, "reply_to_message_id": "a"}, True),
        ({"src_node_id": 8, "reply_to_message_id": "a"}, False),
        ({"src_node_id": 1, "dst_node_id": 8}, False),
        ({"src_node_id": 7}, False),
    ],
)
def test_a_node_replies_and_in_its_own_name(about, is_own):
    parts = ObjectTree(object_id="b" * 64, children=[ObjectTree(object_id="c" * 64)])
    request = PushMessagesRequest(
        node=Node(node_id=7), messages_list=[Message(metadata=Metadata(message_id="b" * 64, **about))],
        message_object_trees=[parts],
    )  # fmt: skip
    if is_own:
        superlink_middleware.only_own_replies(request)
    else:
        with pytest.raises(HTTPException):
            superlink_middleware.only_own_replies(request)


def test_all_names_that_are_needed_are_where_they_were():
    assert superlink_middleware.missing == ""


def test_version_and_clock_of_admitted_keys_alone_are_noted_and_a_hostile_version_is_left_out(tmp_path, monkeypatch):
    file, behind = tmp_path / "clients.json", Behind()
    behind.admission._seen = admission.Seen(file)
    monkeypatch.setattr(admission.Seen, "EACH", 0.0)
    version = b"fedlearn-version"
    assert behind.say({**signed(STRANGER), version: b"9"})[0] == 401 and not file.exists()
    assert behind.say({**signed(at=now() - timedelta(seconds=40)), version: b"0.2.0"})[0] == 200
    ((key, about),) = json.loads(file.read_text()).items()
    assert key == sha256(public_key_to_bytes(PUBLIC)).hexdigest()[:16]
    assert about["version"] == "0.2.0" and 40 <= about["behind"] < 45
    for hostile in (b"<script>", b"x" * 21, b"1\x1b[31m", b""):
        assert behind.say({**signed(), version: hostile})[0] == 200
        assert json.loads(file.read_text())[key]["version"] == ""
    monkeypatch.setattr(admission.Path, "write_text", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    assert behind.say(signed())[0] == 200
