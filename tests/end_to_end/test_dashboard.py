"""The live page beside a run that goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest

from tests.end_to_end.chromium import WIDTHS, Visit, headless
from tests.end_to_end.conftest import CHEAP, PATIENCE, PLUGINS, ROOT, Run, end_of, wait_until

FAULTY = {"model.name": "faulty:model", "clients": 6, "rounds.cohort": 0, "rounds.total": 3}


@pytest.fixture(scope="module")
def browser():
    with headless() as browser:
        yield browser


@pytest.fixture
def start(tmp_path):
    """Start a command that serves a page; return its process and the page's address."""
    started = []

    def start(*arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "fedlearn", *map(str, arguments)], cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(PLUGINS), **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process, re.search(r"http://\S+", process.stdout.readline())[0]

    yield start
    for process in started:
        for left in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
            left.kill()
        process.kill()
        process.communicate()


def simulate(start, folder, settings, **environment):
    sets = [f"--set={key}={value}" for key, value in {**CHEAP, **settings}.items()]
    return start("simulate", "--dashboard", "0", "--out", folder, *sets, **environment)


def pages_of(process):
    children = psutil.Process(process.pid).children()
    return [child for child in children if "fedlearn.report.dashboard" in child.cmdline()]


@pytest.mark.long
def test_round_1_is_shown_while_round_2_goes_on(browser, start, tmp_path):
    process, url = simulate(start, tmp_path / "run", FAULTY, FAULTS="hang:3:2")
    (page_process,) = pages_of(process)
    visits = [Visit(browser, url, width=width) for width in WIDTHS]
    for visit in visits:
        visit.waits_for("body", "round 2 of 3, reporting")
        assert "in round 1" in visit.page.inner_text("#results")
        assert visit.page.inner_text("#link") == "connected"
        visit.assert_calm()
    stream = urllib.request.urlopen(f"{url}stream", timeout=PATIENCE)
    os.kill(process.pid, signal.SIGINT)
    for visit in visits:
        visit.waits_for("body", "the run has ended")
        assert "interrupted" in visit.page.inner_text("#head")
        visit.assert_calm()
    assert stream.read().endswith(b"event: end\ndata:\n\n")
    assert process.wait(PATIENCE) == 130
    assert not page_process.is_running()


@pytest.mark.long
def test_the_finished_state_stays_on_an_open_page(browser, start, tmp_path):
    process, url = simulate(start, tmp_path / "run", {"engine.name": "inline"})
    visit = Visit(browser, url)
    visit.waits_for("body", "the run has ended")
    assert process.wait(PATIENCE) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "completed" in visit.page.inner_text("#head")
    assert f"{summary['accuracy']:.4f}" in visit.page.inner_text("#results")
    assert summary["model_sha256"][:10] in visit.page.inner_text("#results")
    assert visit.page.locator("#curves figure").count() == 3
    visit.assert_calm()


@pytest.mark.long
def test_a_page_that_lost_its_server_finds_the_next_one(browser, start, execute):
    run = execute(engine="inline")
    first, url = start("dashboard", run.folder, "--port", "0")
    visit = Visit(browser, url)
    visit.waits_for("#link", "connected")
    first.kill()
    first.wait()
    visit.waits_for("#link", "lost")
    execute({"rounds.total": 3}, engine="inline", out=run.folder)
    start("dashboard", run.folder, "--port", url.rstrip("/").rpartition(":")[2])
    visit.waits_for("#link", "connected")
    visit.waits_for("body", "3 rounds")


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="kill"),
        pytest.param(signal.SIGINT, id="ctrl-c"),  # in round 2: see above
    ],
)
def test_nothing_is_left_of_a_page_when_its_run_is_gone(start, tmp_path, number):
    process, url = simulate(start, tmp_path / "run", FAULTY, FAULTS="hang:3:1")
    (page_process,) = pages_of(process)
    stream = urllib.request.urlopen(f"{url}stream", timeout=PATIENCE)
    assert stream.readline().startswith(b"data: ")
    os.kill(process.pid, number)
    assert stream.read().endswith(b"event: end\ndata:\n\n")
    process.wait(PATIENCE)
    wait_until(lambda: not page_process.is_running(), "the page's process")


@pytest.mark.long
def test_a_page_changes_no_byte_of_the_model(tmp_path, undisturbed, capsys):
    sets = [f"--set={key}={value}" for key, value in CHEAP.items()]
    assert end_of("simulate", "--dashboard", "0", "--out", tmp_path / "run", *sets) == 0
    assert re.search(r"live page: http://\S+", capsys.readouterr().out)
    assert Run(tmp_path / "run").sha == undisturbed().sha


def test_ctrl_c_ends_a_dashboard_at_once_with_streams_open(start, undisturbed):
    process, url = start("dashboard", undisturbed().folder, "--port", "0")
    stream = urllib.request.urlopen(f"{url}stream", timeout=PATIENCE)
    stream.readline()
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert time.monotonic() - begin < PATIENCE / 2
    assert process.stderr.read() == ""
