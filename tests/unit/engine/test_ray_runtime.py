"""The ray engine checks before it starts, and leaves no file or process behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fedlearn.config import config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.engine import ENGINES
from fedlearn.engine.ray_runtime import cluster, ray_folder
from tests.waiting import wait_until


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(UsageError, match=r"Ray is not installed: pip install 'fedlearn\[ray\]'"):
        ENGINES.load("ray")(config_from({"data.dataset": "digits"}))


@pytest.mark.parametrize("address", ["auto", "ray://head:10001", "head", ":6379", "head:port"])
def test_an_address_is_host_and_port(address):
    with (
        pytest.raises(SettingError, match="must be HOST:PORT, as `ray start --head` prints it"),
        cluster.connected(address, cpus=1),
    ):
        pass


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(SettingError, match="no process answers there"), cluster.connected(address, cpus=1):
            pass
        assert time.monotonic() - begin < 10


def test_a_cluster_that_ray_would_look_for_elsewhere_is_refused_at_once(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.2")
    with socket.create_server(("127.0.0.1", 0)) as only_here:
        address = f"127.0.0.1:{only_here.getsockname()[1]}"
        with (
            pytest.raises(SettingError, match=r"'127\.0\.0\.2:.* no process answers"),
            cluster.connected(address, cpus=1),
        ):
            pass


def test_the_environment_is_as_it_was_afterwards():
    before = dict(os.environ)
    with pytest.raises(SettingError), cluster.connected("nowhere", cpus=1):
        pass
    assert dict(os.environ) == before


def test_a_client_fits_where_one_machine_has_all_that_it_takes():
    actors = pytest.importorskip("fedlearn.engine.ray_runtime.actors", reason="Ray is not installed")
    machine = {"CPU": 4.0, "GPU": 1.0}
    for taken, fitting in [((1, 0), 4), ((3, 0), 1), ((5, 0), 0), ((0.5, 0), 8), ((1, 0.5), 2), ((1, 2), 0)]:
        assert actors.fitting(machine, *taken) == fitting
    assert actors.fitting({"CPU": 4.0}, 1.0, 0.5) == 0


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(ray_folder, "LONGEST", 1000)
    return tmp_path


def test_a_folder_is_gone_afterwards_with_all_that_is_in_it(place):
    with ray_folder.guarded_folder() as own:
        (own / "session").mkdir()
        (own / "session" / "log").write_text("x")
        assert list(place.iterdir()) == [own]
    assert list(place.iterdir()) == []


def test_the_process_that_made_the_folder_goes_on_even_if_it_still_writes_there(place):
    with ray_folder.guarded_folder() as own:
        log = (own / "log").open("w")
    assert list(place.iterdir()) == []
    log.close()


KILLED = """
import os, subprocess, sys
from fedlearn.engine.ray_runtime.ray_folder import guarded_folder
with guarded_folder() as own:
    log = (own / "log").open("w")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=log)
    print(child.pid, own, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_after_a_kill_the_folder_is_gone_and_who_wrote_there():
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    child, own = killed.stdout.split()
    wait_until(lambda: not psutil.pid_exists(int(child)), "the child to end", 30)
    wait_until(lambda: not Path(own).exists(), "the folder to go", 30)


def test_in_a_long_temporary_folder_sockets_would_not_fit(place, monkeypatch):
    monkeypatch.setattr(ray_folder, "LONGEST", 3)
    with ray_folder.guarded_folder() as own:
        assert own.parent == Path("/tmp")
