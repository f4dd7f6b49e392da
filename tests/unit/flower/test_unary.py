"""Layers that run in a request's own task do what they did in tasks of their own."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fedlearn.flower import unary

CALL, CONTROL = "/v1/runtime/say", "/v1/control/say"
AS_IT_WAS = BaseHTTPMiddleware.__call__


@pytest.fixture(params=["as it was", "in one piece"])
def layers(request, monkeypatch):
    """Both ways, to be held to the same answers."""
    monkeypatch.setattr(BaseHTTPMiddleware, "__call__", AS_IT_WAS)
    if request.param == "in one piece":
        unary.answer_in_one_piece()
    return request.param


async def reads(request, call_next):
    request.state.read = await request.body()
    response = await call_next(request)
    response.headers["x-read"] = str(len(request.state.read))
    return response


async def translates(request, call_next):
    inner = await call_next(request)
    response = Response(b"<" + request.state.said + b">", inner.status_code)
    response.headers.raw.extend(header for header in inner.headers.raw if header[0] == b"x-inner")
    return response


async def refuses(request, call_next):
    try:
        return await call_next(request)
    except KeyError as error:
        return JSONResponse({"lost": str(error)}, 418)
    except HTTPException as error:
        return JSONResponse({"refused": error.detail}, error.status_code)


async def passes(request, call_next):
    return await call_next(request)


async def stops(request, call_next):
    if request.headers.get("x-stop"):
        raise HTTPException(401, "nobody")
    return await call_next(request)


async def endpoint(request):
    given = await request.body()
    if given == b"lost":
        raise KeyError("it")
    request.state.said = given.upper() + str(request.headers.get("x-more", "")).encode()
    return Response(b"placeholder", 201, {"x-inner": "kept"})


async def in_parts(request):
    request.state.said = b"parts"

    async def parts():
        for part in (b"one", b"two"):
            yield part

    return StreamingResponse(parts())


class Client:
    def __init__(self, app):
        self.app = app

    def post(self, path, **given):
        async def ask():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://superlink") as client:
                return await client.post(path, **given)

        return asyncio.run(ask())


def client_of(endpoint=endpoint, inner=(translates,)):
    layers = (refuses, reads, passes, *inner, stops, passes)
    return Client(
        Starlette(
            routes=[Route(path, endpoint, methods=["POST"]) for path in (CALL, CONTROL)],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=each) for each in layers],
        )
    )


@pytest.mark.parametrize("path", [CALL, CONTROL])
def test_a_body_is_read_by_all_and_answers_are_changed_on_their_way_out(layers, path):
    answer = client_of().post(path, content=b"hello", headers={"x-more": "!"})
    assert (answer.status_code, answer.content) == (201, b"<HELLO!>")
    assert (answer.headers["x-read"], answer.headers["x-inner"]) == ("5", "kept")
    assert answer.headers["content-length"] == "8"


@pytest.mark.parametrize("path", [CALL, CONTROL])
def test_errors_go_out_through_the_layers(layers, path):
    client = client_of()
    assert client.post(path, content=b"lost").json() == {"lost": "'it'"}
    refused = client.post(path, content=b"hello", headers={"x-stop": "1"})
    assert (refused.status_code, refused.json()) == (401, {"refused": "nobody"})
    assert client_of(inner=()).post(f"{path}/nowhere", content=b"").status_code == 404


@pytest.mark.parametrize("path", [CALL, CONTROL])
def test_an_answer_in_parts_comes_whole(layers, path):
    assert client_of(in_parts, inner=()).post(path).content == b"onetwo"


@pytest.mark.parametrize("path", [CALL, CONTROL])
def test_a_large_body_comes_through(layers, path):
    answer = client_of().post(path, content=b"x" * 3_000_000)
    assert (len(answer.content), answer.headers["x-read"]) == (3_000_002, "3000000")


def test_calls_run_in_one_task_and_streams_of_the_control_api_as_before(monkeypatch):
    monkeypatch.setattr(BaseHTTPMiddleware, "__call__", AS_IT_WAS)
    unary.answer_in_one_piece()
    tasks = []

    async def notes(request, call_next):
        tasks.append(asyncio.current_task())
        return await call_next(request)

    client = client_of(inner=(translates, notes, notes, notes))
    client.post(CALL, content=b"hello")
    assert len(set(tasks)) == 1
    tasks.clear()
    client.post(CONTROL, content=b"hello")
    assert len(set(tasks)) == 3


def test_who_has_gone_away_is_answered_nothing(monkeypatch):
    sent = []

    async def gone():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    layer = BaseHTTPMiddleware(client_of().app, dispatch=passes)
    asyncio.run(unary._in_line(layer, {"type": "http", "method": "POST", "path": CALL, "headers": []}, gone, send))
    assert sent == []
