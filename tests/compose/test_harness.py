"""Containers end with all their processes, when they are stopped and when their parent is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.compose.file import read_project
from tests.compose.stack import Stack
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), reason="there is no nginx"),
]

PROXY = """
services:
  proxy:
    image: small
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
WORKERS = 2
HARNESS = """
import json, sys
from pathlib import Path
from tests.compose.test_harness import proxy_in

with proxy_in(Path(sys.argv[1])) as stack:
    print(json.dumps([process.pid for process in stack["proxy"].processes()]), flush=True)
    sys.stdin.read()
"""


@contextmanager
def proxy_in(folder: Path) -> Iterator[Stack]:
    (folder / "docker-compose.yml").write_text(PROXY)
    with Stack(read_project(folder / "docker-compose.yml", {}), folder / "stack") as stack:
        wait_until(lambda: len(stack["proxy"].processes("nginx")) == 1 + WORKERS, stack.story)
        yield stack


def lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_proxy_that_is_stopped_leaves_no_process_behind(tmp_path):
    with proxy_in(tmp_path) as stack:
        processes = stack["proxy"].processes()
    assert not any(map(lives, processes))


def test_a_proxy_leaves_no_process_behind_when_the_harness_is_killed(tmp_path):
    """A killed harness cannot stop its containers one by one, as `Stack.down` does."""
    command = [sys.executable, "-c", HARNESS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        left = [psutil.Process(pid) for pid in json.loads(harness.stdout.readline())]
        harness.kill()
    try:
        assert len(left) == 1 + WORKERS
        wait_until(lambda: not any(map(lives, left)), "the processes of the proxy to end", 10)
    finally:
        for process in filter(lives, left):
            process.kill()
