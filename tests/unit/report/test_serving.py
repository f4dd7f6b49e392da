"""The live page serves only the page, its stream and the raw files of its runs."""

from __future__ import annotations

import asyncio
import json
import socket

import httpx
import pytest

from fedlearn.core.errors import UsageError
from fedlearn.report import serving
from fedlearn.report.serving import Site, Watched, is_local, listening, url_of
from tests.unit.report.conftest import STARTED, rows_of, write_events, write_rows


@pytest.fixture
def browse():
    """Ask a site about some folders, after its page."""

    def browse(*paths, local=True):
        app = Site(Watched(paths), local=local).app()

        def get(path, **given):
            return asyncio.run(asked(path, **given))

        async def asked(path, **given):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
                await client.get("/")
                return await client.get(path, **given)

        return get

    return browse


def test_the_page_listens_to_its_own_host_only(browse, make_run):
    text = browse(make_run())("/").text
    assert 'data-stream="stream"' in text and "connect-src &#x27;self&#x27;" in text


def test_raw_files_are_given_as_text_or_bytes(browse, make_run):
    folder = make_run()
    (folder / "model.safetensors").write_bytes(b"\0\1")
    get = browse(folder)
    answer = get("/raw/0/metrics.csv")
    assert answer.content == (folder / "metrics.csv").read_bytes()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert get("/raw/0/model.safetensors").content == b"\0\1"


ELSEWHERE = """
    raw/0/..%2fsecret raw/0/%2e%2e/secret raw/0/.lock raw/0/linked raw/0/best.safetensors raw/1/metrics.csv
    raw/0/checkpoint raw/-1/metrics.csv raw/x/metrics.csv raw/0/ openapi.json docs index.html
"""


@pytest.mark.parametrize("path", ELSEWHERE.split())
def test_nothing_else_is_given(browse, make_run, tmp_path, path):
    (tmp_path / "secret").write_text("secret")
    folder = make_run()
    (folder / ".lock").touch()
    (folder / "linked").symlink_to(tmp_path / "secret")
    (folder / "best.safetensors").symlink_to(tmp_path / "secret")
    (folder / "checkpoint").mkdir()
    answer = browse(folder)(f"/{path}")
    assert answer.status_code in (404, 422) and "secret" not in answer.text


def test_on_this_machine_only_its_own_names_are_answered(browse, make_run):
    folder = make_run()
    asked = {"headers": {"Host": "evil.example"}}
    assert browse(folder)("/", **asked).status_code == 400
    assert browse(folder, local=False)("/", **asked).status_code == 200


def news_of(site, until_text="", between=lambda: None):
    """Return the messages of a stream up to one that holds a text, then those after something has happened."""

    async def read():
        stream = site._news()
        before = [await anext(stream)]
        while until_text not in before[-1]:
            before.append(await anext(stream))
        between()
        after = [await anext(stream)]
        site.closing = True
        after += [message async for message in stream]
        return before, after

    return asyncio.run(read())


def sections_in(message):
    return json.loads(message.removeprefix("data: "))


def test_whoever_comes_gets_all_and_then_what_changes(make_run, monkeypatch):
    monkeypatch.setattr(serving, "LOOK", 0.01)
    folder = make_run(rows=rows_of([0.2]), status="")

    def go_on():
        write_rows(folder, rows_of([0.2, 0.9]))
        write_events(folder, [{"time": 3.0, "event": "round-started", "round": 3, "attempt": 1}])

    before, after = news_of(Site(Watched([folder]), local=True), between=go_on)
    first, second = sections_in(before[0]), sections_in(after[0])
    assert set(first) == {
        "head",
        "choose",
        "results",
        "learning",
        "curves",
        "pareto",
        "nodes",
        "gains",
        "classes",
        "devices",
        "rounds",
        "skew",
        "statistics",
        "analysis",
        "worth",
        "trouble",
        "origins",
        "settings",
        "environment",
        "files",
    }
    assert "0.2000" in first["results"] and "0.9000" in second["results"]
    assert "round 3 of 3, selection" in second["head"]
    assert not {"settings", "environment", "skew"} & set(second)
    assert after[-1] == "event: end\ndata:\n\n"


def test_a_folder_may_be_made_after_the_page(tmp_path, make_run, monkeypatch):
    monkeypatch.setattr(serving, "LOOK", 0.01)
    site = Site(Watched([tmp_path / "later"]), local=True)
    before, after = news_of(site, between=lambda: make_run("later"))
    assert "waiting for the run to begin" in sections_in(before[0])["head"]
    assert "completed" in sections_in(after[0])["head"]


def test_the_log_is_read_once(make_run):
    folder = make_run(status="")
    watched = Watched([folder])
    watched.look()
    (log,) = watched._logs.values()
    position = log.tail._position
    write_events(folder, [STARTED])
    watched.look()
    assert watched._logs[folder] is log and log.tail._position > position


# --- where it listens -------------------------------------------------------------------------------------------------


def test_without_a_host_it_is_reached_from_this_machine_alone():
    with listening("0", flag="--port") as listener:
        assert is_local(listener) and url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_told_so_it_is_reached_from_elsewhere():
    with listening("0.0.0.0:0", flag="--port") as listener:
        assert not is_local(listener) and socket.gethostname() in url_of(listener)


@pytest.mark.parametrize("address", ["", "http", "70000", "host:", "-1", "1.5"])
def test_what_is_no_address_is_a_line(address):
    with pytest.raises(UsageError, match=f"^--dashboard {address}: write it as PORT or HOST:PORT"):
        listening(address, flag="--dashboard")


def test_a_port_that_is_taken_is_a_line():
    with listening("0", flag="--port") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError, match=f"^--port {port}: cannot listen there: Address already in use; name another"
        ):
            listening(str(port), flag="--port")
