"""A node's poll without a message is answered when the server has sent one, or after a while."""

from __future__ import annotations

import asyncio

import pytest
from flwr.proto.fleet_pb2 import PullMessagesResponse
from flwr.proto.message_pb2 import Message

from fedlearn.engine.deployment import long_polling
from fedlearn.engine.deployment.long_polling import LongPolling
from fedlearn.flower import superlink_middleware

ASKS, SENDS, LOOKS = "/v1/fleet/pull-messages", "/v1/runtime/push-messages", "/v1/runtime/pull-messages"
NO = PullMessagesResponse().SerializeToString()
YES = PullMessagesResponse(messages_list=[Message()]).SerializeToString()


class SuperLink:
    """Answers as scripted, and notes the requests that have come through."""

    def __init__(self):
        self.answer, self.status = NO, 200
        self.came = []
        self.polling = LongPolling(self._app)

    async def _app(self, scope, receive, send):
        self.came.append((scope["path"], superlink_middleware.key_of(scope)))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.answer})

    async def ask(self, path=ASKS, key=b"one"):
        """Return the answer to a node."""
        told = []

        async def send(message):
            told.append(message.get("body", b""))

        scope = {"type": "http", "path": path, "headers": [(b"accept", b"*"), (b"flwr-public-key", key)]}
        await self.polling(scope, None, send)
        return b"".join(told)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(long_polling, "LONGEST", 30.0)


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_question_after_a_no_waits_for_what_the_server_says():
    async def play():
        link = SuperLink()
        assert await link.ask() == NO
        question = asyncio.ensure_future(link.ask())
        await settled()
        assert not question.done()
        await link.ask(SENDS)
        await link.ask("/v1/runtime/push-object")
        await settled()
        assert not question.done()  # the parts of the message are on their way
        link.answer = YES
        await link.ask(LOOKS)
        assert await asyncio.wait_for(question, 5) == YES
        assert await asyncio.wait_for(link.ask(), 5) == YES  # who was told yes is not made to wait

    asyncio.run(play())


def test_what_was_said_between_two_questions_is_not_waited_for():
    async def play():
        link = SuperLink()
        await link.ask()
        await link.ask(SENDS)
        await link.ask(LOOKS)
        assert await asyncio.wait_for(link.ask(), 5) == NO

    asyncio.run(play())


def test_it_is_answered_after_a_while_whatever_happens(monkeypatch):
    async def play():
        link = SuperLink()
        await link.ask()
        monkeypatch.setattr(long_polling, "LONGEST", 0.05)
        assert await asyncio.wait_for(link.ask(), 5) == NO
        assert len(link.came) == 2

    asyncio.run(play())


def test_no_node_holds_two_and_all_together_not_more_than_the_proxy_lets_through(monkeypatch):
    async def play():
        monkeypatch.setattr(long_polling, "MOST", 2)
        link = SuperLink()
        for key in (b"one", b"two", b"three"):
            await link.ask(key=key)
        questions = [asyncio.ensure_future(link.ask(key=key)) for key in (b"one", b"two")]
        await settled()
        assert await asyncio.wait_for(link.ask(key=b"one"), 5) == NO
        assert await asyncio.wait_for(link.ask(key=b"three"), 5) == NO
        assert not any(question.done() for question in questions)
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        assert not link.polling._waiting  # who has gone away makes room

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/v1/fleet/push-messages", "/v1/fleet/pull-object", "/v1/control/list-runs", LOOKS])
def test_nothing_else_is_held(path):
    async def play():
        link = SuperLink()
        await link.ask()
        assert await asyncio.wait_for(link.ask(path), 5) == NO

    asyncio.run(play())


def test_a_refusal_is_no_no():
    async def play():
        link = SuperLink()
        link.status, link.answer = 401, b"no protobuf"
        await link.ask()
        assert await asyncio.wait_for(link.ask(), 5) == b"no protobuf"

    asyncio.run(play())
