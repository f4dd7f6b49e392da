"""The monitor of a server: what it counts, whom it answers, and that files and page name what it has."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import time

import httpx
import pytest
import yaml
from typer.testing import CliRunner

import fedlearn
from fedlearn.cli import app
from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment import monitor as monitor_module
from fedlearn.engine.deployment import server_processes
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.engine.deployment.monitor import HELP, MOST_WORDS, Monitor, app_of
from fedlearn.engine.deployment.server_status import status_of
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.log import EventLog
from tests.docs.pages import ROOT

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families

DOCS = ROOT / "docs" / "howto"


def b64(given):
    return base64.b64encode(given).decode()


@pytest.fixture(autouse=True)
def _wrong_tokens_do_not_wait(monkeypatch):
    monkeypatch.setattr(monitor_module, "PAUSE", 0.0)


ROUND = {"round": 1, "attempt": 1}
SAMPLES = {
    name + suffix
    for name, (kind, *_) in HELP.items()
    for suffix in {"counter": ["_total"], "summary": ["_sum", "_count"], "gauge": [""]}[kind]
}


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "settings.toml").touch()
    with EventLog(folder / EVENTS) as log:
        yield log


def monitor(tmp_path, **more):
    return Monitor(tmp_path / "runs", **{"folders": {}, "up": {}, **more})


class Client:
    """Asks a monitor as Prometheus does."""

    def __init__(self, found, token="", page=lambda is_still: "<p>status</p>"):
        self._app = app_of(found, token, page)

    def get(self, path, headers=None, method="GET"):
        async def answered():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://monitor") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(answered())


def numbers(found, token=""):
    """Return the samples that a monitor answers with, by name and labels."""
    answer = Client(found, token).get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def play(log, *, ends=True):
    log.write("started", committed=0, rounds=2, clients=3, cohort=2, metrics=None)
    log.write("round-started", **ROUND)
    log.write("too-few-ready", **ROUND, ready=0, needed=2, reason="0 clients were ready")
    log.write("round-started", round=1, attempt=2)
    for number in range(3):
        log.write("ready", round=1, attempt=2, node=number, partition=number)
    log.write("not-ready", round=1, attempt=2, node=4, partition=4, reason="ledger-damaged: a secret\nline")
    log.write("configured", round=1, attempt=2, cohort=2, bytes=500)
    log.write("reported", round=1, attempt=2, node=1, partition=1, bytes=70)
    log.write("refused", round=1, attempt=2, node=2, partition=2, bytes=70, reason="norm-too-large: 7 > 1")
    log.write(
        "committed", round=1, attempt=2, bytes_down=500, bytes_up=140, bytes_protocol=9, selection_seconds=1.5,
        training_seconds=2.0, evaluation_seconds=0.5,
    )  # fmt: skip
    if ends:
        log.write("ended", status="completed", reason="")
    log.flush()


def test_rounds_updates_refusals_bytes_and_seconds_are_counted(tmp_path, log):
    watching = monitor(tmp_path)
    assert numbers(watching)["fedlearn_runs_in_progress",] == 1
    play(log, ends=False)
    found = numbers(watching)
    assert found["fedlearn_rounds_total", "completed"] == found["fedlearn_rounds_total", "too-few-ready"] == 1
    assert found["fedlearn_updates_total", "reported"] == found["fedlearn_updates_total", "refused"] == 1
    assert found["fedlearn_refusals_total", "norm-too-large"] == 1
    assert found["fedlearn_refusals_total", "ledger-damaged"] == 1
    assert found["fedlearn_bytes_total", "downlink"] == 500 and found["fedlearn_bytes_total", "uplink"] == 140
    assert (
        found["fedlearn_phase_seconds_sum", "training"] == 2 and found["fedlearn_phase_seconds_count", "training"] == 1
    )
    assert found["fedlearn_clients", "ready"] == 3 and found["fedlearn_clients", "selected"] == 2
    assert found["fedlearn_round",] == 1 and found["fedlearn_rounds_asked",] == 2
    assert found["fedlearn_disk_free_bytes", "runs"] > 0
    assert numbers(watching) == pytest.approx(found, rel=0.1)  # nothing counts twice
    log.write("ended", status="failed", reason="a secret")
    log.flush()
    after = numbers(watching)
    assert after["fedlearn_runs_total", "failed"] == 1 and after["fedlearn_runs_in_progress",] == 0
    assert "secret" not in Client(watching).get("/metrics").text


def test_a_run_that_had_ended_before_counts_nothing_and_one_in_progress_counts_from_its_start(tmp_path, log):
    play(log)
    assert ("fedlearn_rounds_total", "completed") not in numbers(monitor(tmp_path))
    (tmp_path / "runs" / "two").mkdir()
    (tmp_path / "runs" / "two" / "settings.toml").touch()
    with EventLog(tmp_path / "runs" / "two" / EVENTS) as other:
        play(other, ends=False)
    assert numbers(monitor(tmp_path))["fedlearn_rounds_total", "completed"] == 1


def test_the_first_run_of_a_new_server_counts_though_it_ended_between_two_looks(tmp_path):
    watching = monitor(tmp_path)
    numbers(watching)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    with EventLog(tmp_path / "runs" / "one" / EVENTS) as log:
        play(log)
    assert numbers(watching)["fedlearn_runs_total", "completed"] == 1


def test_a_run_that_is_resumed_counts_on(tmp_path, log):
    play(log)
    watching = monitor(tmp_path)
    assert numbers(watching)["fedlearn_runs_in_progress",] == 0
    play(log, ends=False)
    found = numbers(watching)
    assert found["fedlearn_rounds_total", "completed"] == found["fedlearn_runs_in_progress",] == 1
    log.write("ended", status="completed", reason="")
    log.flush()
    assert numbers(watching)["fedlearn_runs_in_progress",] == 0


def test_hostile_words_are_one_and_a_log_that_is_none_of_ours_is_said(tmp_path, log):
    watching = monitor(tmp_path)
    log.write("started", committed=0, rounds=2, metrics=None)
    for number in range(2 * MOST_WORDS):
        word = "".join("abcdefghij"[int(digit)] for digit in str(number))
        log.write("refused", **ROUND, node=1, partition=1, reason=f"word-{word}: x")
    for odd in ('a"} 1\nup 1', "é" * 9, "x" * 500, ""):
        log.write("refused", **ROUND, node=1, partition=1, reason=odd)
    log.flush()
    found = {key: value for key, value in numbers(watching).items() if key[0] == "fedlearn_refusals_total"}
    assert len(found) == MOST_WORDS + 1 and found["fedlearn_refusals_total", "other"] == MOST_WORDS + 4
    for _ in range(2):
        log.write("committed", round="x")
        log.flush()
        found = numbers(watching)
        assert found["fedlearn_unreadable_logs",] == 1 and found["fedlearn_runs_in_progress",] == 0


def test_numbers_want_the_token_and_health_does_not(tmp_path):
    client = Client(monitor(tmp_path), "s3cret")
    for given in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer s3cre"}, {"Authorization": "s3cret"}):
        answer = client.get("/metrics", headers=given)
        assert answer.status_code == 401 and "fedlearn_" not in answer.text
    assert client.get("/metrics", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert client.get("/healthz").text == "ok" and client.get("/readyz").status_code == 200
    assert client.get("/runs").status_code == 404 and client.get("/metrics", method="POST").status_code == 405


def test_a_wrong_token_waits_and_a_right_one_does_not(tmp_path, monkeypatch):
    client = Client(monitor(tmp_path), "s3cret")
    monkeypatch.setattr(monitor_module, "PAUSE", 3600.0)
    assert client.get("/", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    monkeypatch.setattr(monitor_module, "PAUSE", 0.2)
    begin = time.monotonic()
    assert client.get("/").status_code == 401 and time.monotonic() - begin >= 0.2


def test_the_page_wants_the_token_as_the_password_of_any_user(tmp_path):
    client = Client(monitor(tmp_path), "s3cret:x")
    for given in (
        "",
        "Basic",
        "Basic !",
        f"Basic {b64(b's3cret:x')}",
        f"Basic {b64(b'a:s3cret')}",
        f"Basic {b64(bytes(9))}",
    ):
        answer = client.get("/", headers={"Authorization": given} if given else None)
        assert answer.status_code == 401 and "Basic" in answer.headers["www-authenticate"]
    answer = client.get("/", headers={"Authorization": f"Basic {b64(b'anna:s3cret:x')}"})
    assert answer.text == "<p>status</p>" and answer.headers["cache-control"] == "no-store"


def test_it_is_ready_while_each_part_answers(tmp_path):
    with socket.socket() as part:
        part.bind(("127.0.0.1", 0))
        part.listen()
        up = {"proxy": f"127.0.0.1:{part.getsockname()[1]}"}
        client = Client(monitor(tmp_path, up=up))
        assert client.get("/readyz").text == "ok"
    answer = client.get("/readyz")
    assert answer.status_code == 503 and answer.text == "no answer: proxy"
    assert numbers(monitor(tmp_path, up=up))["fedlearn_up", "proxy"] == 0


def test_the_certificates_end_is_known(tmp_path):
    make_keys(tmp_path, clients=1)
    name = ("fedlearn_certificate_expiry_timestamp_seconds",)
    assert numbers(monitor(tmp_path, keys=tmp_path))[name] > 1.8e9
    assert name not in numbers(monitor(tmp_path, keys=tmp_path / "none"))


def test_a_run_with_secret_draws_has_no_counts_here(tmp_path):
    watching = monitor(tmp_path)
    numbers(watching)
    fedlearn.run(
        6, data="digits", model="linear", private="nodes", epsilon=4.0, delta=1e-5, rounds=2, cohort=3, engine="inline",
        progress=False, out=str(tmp_path / "runs" / "one"),
        settings={"rounds.selector": "poisson", "privacy.noise": "secure"},
    )  # fmt: skip
    found = numbers(watching)
    counts = ("fedlearn_updates_total", "fedlearn_bytes_total", "fedlearn_clients", "fedlearn_refusals_total")
    assert not {key: value for key, value in found.items() if key[0] in counts and value}
    assert found["fedlearn_rounds_total", "completed"] == 2  # it was read
    (run,) = status_of(keys=tmp_path, state=tmp_path, runs=tmp_path / "runs")["runs"]
    assert (run["completed"], run["state"], run["attempt"], run["warning"]) == (2, "completed", 1, "")


@pytest.mark.parametrize("file", ["alerts.yml", "dashboard.json"])
def test_the_names_in_a_file_are_those_of_the_program(file):
    text = (DOCS / "monitoring" / file).read_text()
    named = set(re.findall(r"\bfedlearn_\w+", text))
    assert named <= SAMPLES and len(named) >= 7
    read = yaml.safe_load(text) if file.endswith("yml") else json.loads(text)
    rules = read["groups"][0]["rules"] if file.endswith("yml") else read["panels"]
    assert len(rules) >= 10
    if file == "dashboard.json":
        assert named == SAMPLES


def test_the_page_names_all_numbers():
    table = (DOCS / "monitoring.md").read_text()
    assert {name for name in re.findall(r"`(fedlearn_\w+)`", table)} == SAMPLES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metrics", "9464"], "--metrics"),
        (["proxy", "--metrics", "127.0.0.1:9464"], "--metrics is for the whole server"),
        (["--metrics-token", "token"], "give --metrics HOST:PORT, too"),
    ],
)
def test_flags_that_do_not_fit_are_refused(words, said):
    ended = CliRunner().invoke(app, ["server", *words])
    assert ended.exit_code != 0 and said in f"{ended.output}{ended.exception}"


def test_a_token_that_is_missing_or_empty_is_refused_before_the_start(tmp_path):
    options = server_processes.ServerOptions(
        keys=tmp_path, state=tmp_path, listen="0.0.0.0:8443", superlink="127.0.0.1:8000", metrics="127.0.0.1:0",
        metrics_token=tmp_path / "token",
    )  # fmt: skip
    for _ in range(2):
        with pytest.raises(UsageError, match="it cannot be read, or it is empty"):
            server_processes._monitor(options)
        (tmp_path / "token").touch()
    (tmp_path / "token").write_text("s3cret\n")
    assert "--up=proxy=127.0.0.1:8443" in server_processes._monitor(options)
