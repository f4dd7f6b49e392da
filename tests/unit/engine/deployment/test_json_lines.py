"""With --json-log each line of a server and its programs is a JSON object, whatever the programs print."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time

import pytest

from fedlearn.engine.deployment import services
from fedlearn.engine.deployment.programs import JsonLines, as_json, copy_as_json
from fedlearn.engine.deployment.services import Service


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        (b"\x1b[92mINFO \x1b[0m:      Started task 7\n", "INFO", "Started task 7"),
        (
            b"2026-11-29 12:00:00,1 executor WARNING it ended\n",
            "WARNING",
            "2026-11-29 12:00:00,1 executor WARNING it ended",
        ),
        (b'{"a": "b"} \xff\n', "INFO", '{"a": "b"} \ufffd'),
        (b"Traceback (most recent call last):", "INFO", "Traceback (most recent call last):"),
    ],
)
def test_a_line_of_a_foreign_program_is_an_object(line, level, message):
    found = json.loads(as_json("superlink", line))
    assert (found["program"], found["level"], found["message"]) == ("superlink", level, message)
    assert found["time"].endswith("+00:00")


def test_an_error_is_one_line():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("server", logging.ERROR, "", 1, "it %s", ("failed",), sys.exc_info())
    shown = JsonLines().format(record)
    assert "\n" not in shown and json.loads(shown)["message"].startswith("it failed\nTraceback")


def test_every_line_is_copied_and_endless_ones_are_cut(capsys):
    copy_as_json("proxy", io.BytesIO(b"one\n\n" + b"x" * 100_000 + b"\ntwo"))
    found = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert found[0] == "one" and found[-1].endswith("two") and max(map(len, found)) <= 1 << 14
    assert sum(map(len, found)) == 100_006


def test_a_service_prints_objects_and_is_started_again(monkeypatch, capsys):
    started = subprocess.Popen

    def popen(command, **given):
        return started(
            [sys.executable, "-c", "import sys; print('out'); print('WARNING : err', file=sys.stderr)"], **given
        )

    monkeypatch.setattr(services.subprocess, "Popen", popen)
    monkeypatch.setattr(services, "PAUSES", (0.0,))
    service, lines, end = Service("proxy", [], logging.getLogger("test"), json_lines=True), [], time.monotonic() + 60
    while len(lines) < 4 and time.monotonic() < end:
        service.look_after()
        time.sleep(0.05)
        lines += capsys.readouterr().err.splitlines()
    found = [json.loads(line) for line in lines if '"proxy"' in line]
    assert {(each["level"], each["message"]) for each in found} == {("INFO", "out"), ("WARNING", "err")}
    service.stop()
    service.wait(until=time.monotonic() + 5)
