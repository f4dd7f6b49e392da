"""The harness does with a small file what Docker Compose does: order, names, volumes, health, restart, scale."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.compose import namespaces
from tests.compose.file import read_project
from tests.compose.namespaces import NamespaceWiring
from tests.compose.plain import PlainWiring
from tests.compose.service import ComposeError
from tests.compose.stack import Stack

PATIENCE = 60.0
FILE = """
x-common: &common
  image: small
  user: "1000:1000"
  read_only: true
  init: true
  cap_drop: [ALL]
  tmpfs: [/tmp]
services:
  setup:
    <<: *common
    user: "0:0"
    cap_add: [CHOWN]
    network_mode: none
    build:
      dockerfile_inline: |
        FROM python
        ENV GREETING=hello
        WORKDIR /app
        COPY page.txt .
    command:
      - python
      - -c
      - |
        import os, shutil
        shutil.copy("/app/page.txt", "/state/page.txt")
        os.geteuid() or os.chown("/state", 1000, 1000)
    volumes: [state:/state]
  web:
    <<: *common
    command: [python, -m, http.server, --bind, 0.0.0.0, --directory, /state, "8000"]
    volumes: [state:/state:ro]
    networks: [front]
    depends_on:
      setup: {condition: service_completed_successfully}
    restart: unless-stopped
    healthcheck:
      test: [CMD, python, -c, "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/page.txt')"]
      interval: 200ms
  client:
    <<: *common
    command: [python, /fetch.py]
    environment: {WEB: "web:8000"}
    configs: [{source: fetch, target: /fetch.py}]
    networks: [front]
    depends_on:
      web: {condition: service_healthy}
    deploy: {replicas: "${CLIENTS:-2}"}
  visitor:
    <<: *common
    command: [sleep, "600"]
    networks: [front]
  stranger:
    <<: *common
    command: [python, -c, "import urllib.request as u; u.urlopen('http://web:8000/page.txt', timeout=5)"]
    networks: [back]
    depends_on:
      web: {condition: service_healthy}
  retried:
    <<: *common
    user: "0:0"
    command: [python, /try.py]
    configs: [{source: try, target: /try.py}]
    volumes: ["${OUT:-./out}:/out"]
    restart: on-failure
    networks: [back]
volumes: {state: {}}
networks: {front: {}, back: {}}
configs:
  fetch:
    content: |
      import os, urllib.request
      page = urllib.request.urlopen("http://" + os.environ["WEB"] + "/page.txt").read().decode()
      print(os.environ["GREETING"], page, flush=True)
  try:
    content: |
      import pathlib
      tries = pathlib.Path("/out/tries")
      before = tries.read_text() if tries.exists() else ""
      tries.write_text(before + "x")
      raise SystemExit(len(before) < 2)
"""

WIRINGS = {"plain": PlainWiring, "namespaces": NamespaceWiring}
pytestmark = pytest.mark.slow


in_namespaces = pytest.mark.parametrize("stack", ["namespaces"], indirect=True)


@pytest.fixture(params=WIRINGS)
def stack(request, tmp_path: Path):
    if request.param == "namespaces" and namespaces.why_not():
        pytest.skip(f"no namespaces: {namespaces.why_not()}")
    (tmp_path / "docker-compose.yml").write_text(FILE)
    (tmp_path / "page.txt").write_text("world")
    variables = {"OUT": str(tmp_path / "out"), "CLIENTS": "3"}
    with Stack(
        tmp_path / "docker-compose.yml",
        tmp_path / "stack",
        WIRINGS[request.param](tmp_path / "stack"),
        variables=variables,
    ) as stack:
        yield stack


def test_services_start_in_order_and_see_each_other_by_name(stack):
    for number in (1, 2, 3):
        assert stack.wait(f"client-{number}", PATIENCE) == 0, stack.story()
        assert stack[f"client-{number}"].read_log() == "hello world\n"
    told = [note.split("s  ")[1] for note in stack.notes]
    order = ["setup-1 exited with 0", "web-1 started", "web-1 is healthy", "client-1 started"]
    assert sorted(order, key=told.index) == order


def test_a_service_on_another_network_does_not_see_them(stack):
    assert stack.wait("stranger", PATIENCE) == 1
    assert re.search("Name or service not known|Temporary failure in name resolution", stack["stranger"].read_log())


def test_what_is_killed_is_started_again_and_what_fails_too(stack):
    stack.until(lambda: stack["web"].healthy, "web", PATIENCE)
    (process,) = stack["web"].processes("http.server")[-1:]
    process.send_signal(signal.SIGKILL)
    stack.until(lambda: stack["web"].starts == 2 and stack["web"].healthy, "web again", PATIENCE)
    assert stack.wait("retried", PATIENCE) == 0
    assert stack["retried"].starts == 3


def test_a_stop_leaves_nothing_behind(stack):
    stack.until(lambda: stack["web"].healthy, "web", PATIENCE)
    processes = stack["web"].processes()
    stack.down()
    assert processes
    assert not any(process.is_running() for process in processes)


PROXY = """
services:
  proxy:
    image: small
    build: {dockerfile_inline: "FROM nginx"}
    command: [nginx, -c, /nginx.conf]
    tmpfs: [/tmp]
    configs: [{source: conf, target: /nginx.conf}]
configs:
  conf:
    content: |
      daemon off;
      pid /tmp/nginx.pid;
      error_log stderr;
      worker_processes 2;
      events {}
      http {
        access_log off;
        client_body_temp_path /tmp/body;
        proxy_temp_path /tmp/proxy;
        fastcgi_temp_path /tmp/fastcgi;
        uwsgi_temp_path /tmp/uwsgi;
        scgi_temp_path /tmp/scgi;
        server { listen 127.0.0.1:8094; }
      }
"""
HARNESS = """
import json, sys, time
from pathlib import Path
from tests.compose.plain import PlainWiring
from tests.compose.stack import Stack

place = Path(sys.argv[1])
with Stack(place / "docker-compose.yml", place / "stack", PlainWiring(place / "stack")) as stack:
    while len(stack["proxy"].processes("nginx")) < 3:
        time.sleep(0.05)
    print(json.dumps([process.pid for process in stack["proxy"].processes()]), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), reason="there is no nginx")
def test_a_proxy_leaves_no_process_behind_when_the_harness_is_killed(tmp_path):
    """Not as a stop does: nothing is left that could end them one by one."""
    (tmp_path / "docker-compose.yml").write_text(PROXY)
    command = [sys.executable, "-c", HARNESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        left = [psutil.Process(pid) for pid in json.loads(harness.stdout.readline())]
        harness.kill()
    assert len(left) >= 3
    end = time.monotonic() + 10
    while (living := [process for process in left if _lives(process)]) and time.monotonic() < end:
        time.sleep(0.05)
    for process in living:
        process.kill()
    assert not living


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE  # of which nobody has heard yet
    except psutil.NoSuchProcess:
        return False


@in_namespaces
def test_user_and_read_only_root_are_as_the_file_says(stack):
    stack.until(lambda: stack["web"].healthy, "web", PATIENCE)
    program = "import os; print(os.getuid()); open('/tmp/x', 'w'); open('/app/x', 'w')"
    asked = stack["web"].execute(["python", "-c", program])
    assert asked.stdout == "1000\n"
    assert "Read-only file system: '/app/x'" in asked.stderr
    assert "Read-only file system" in stack["web"].execute(["touch", "/state/x"]).stderr


@in_namespaces
def test_a_cut_cable_loses_what_is_sent_until_it_is_healed(stack):
    stack.until(lambda: stack["web"].healthy, "web", PATIENCE)
    program = "import urllib.request as u; u.urlopen('http://web:8000/page.txt', timeout=1)"
    fetch = ["python", "-c", program]
    assert stack["visitor"].execute(fetch).returncode == 0
    stack.wiring.cut(stack["web"])
    assert stack["visitor"].execute(fetch).returncode == 1
    stack.wiring.heal(stack["web"])
    assert stack["visitor"].execute(fetch).returncode == 0


def test_what_the_harness_cannot_do_is_an_error(tmp_path):
    (tmp_path / "docker-compose.yml").write_text("services: {one: {privileged: true}}")
    with pytest.raises(ComposeError, match="service 'one': the harness cannot do privileged"):
        read_project(tmp_path / "docker-compose.yml", {})
