"""The process that workers are forked from begins before the settings are known, and ends with its parent."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest

from fedlearn.__main__ import main
from fedlearn.engine.embedded import forkserver, preload
from tests.waiting import wait_until

PATIENCE = 20.0  # seconds; an import takes less than one on an idle machine

BEGUN = """
import os, sys, time
from multiprocessing import forkserver as python
from fedlearn.engine.embedded import forkserver, preload
forkserver.begin()
print(python._forkserver._forkserver_pid, flush=True)
"""

TOLD = """
import multiprocessing
sys.path.append(sys.argv[1])
forkserver.{function}
with multiprocessing.get_context("forkserver").Pool(1) as pool:
    print(pool.apply(eval, ("[name in __import__('sys').modules for name in ('torch', 'numba', 'extra')]",)))
    print("FEDLEARN_IMPORTS" in os.environ, pool.apply(eval, ("'FEDLEARN_IMPORTS' in __import__('os').environ",)))
"""

SPEC = """
from fedlearn.models.spec import ModelSpec
SPEC = ModelSpec("fedlearn.models.networks.linear:Linear", imports=({imports}))
"""


@pytest.fixture
def begun(tmp_path):
    """Start Python processes that begin it, and then run some code."""
    with ExitStack() as around:

        def begin(code, *arguments):
            command = [sys.executable, "-c", BEGUN + code, *arguments]
            environment = {**os.environ, "TMPDIR": str(tmp_path)}
            process = around.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            )
            around.callback(process.kill)  # before it is waited for: a test that has failed waits for nothing
            return process

        yield begin


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_process_is_begun_before_settings_are_imported():
    script = "import sys\nfrom fedlearn.engine.embedded import forkserver\nprint('pydantic' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed == "False\n", "a run's start-up waits for each import before the process that imports torch"


@pytest.mark.parametrize("after", [0.0, 0.05, 1.5], ids=["at once", "while it starts", "while it waits"])
def test_it_ends_with_whoever_began_it_even_if_killed(begun, tmp_path, after):
    engine = begun("time.sleep(60)")
    pid = int(engine.stdout.readline())
    time.sleep(after)
    assert psutil.pid_exists(pid)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    wait_until(lambda: gone(pid), "it goes on", PATIENCE)
    wait_until(lambda: not list(tmp_path.glob("pymp-*")), f"it has left {list(tmp_path.rglob('*'))}", PATIENCE)


@pytest.mark.parametrize("code", ["", "forkserver.end()", "forkserver.begin(); forkserver.end(); forkserver.end()"])
def test_it_is_ended_by_the_engine(begun, tmp_path, code):
    engine = begun(code)
    pid = int(engine.stdout.readline())
    assert engine.wait(PATIENCE) == 0
    assert gone(pid)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_is_killed_after_it_has_ended_it_leaves_no_folder(begun, tmp_path):
    engine = begun("forkserver.end_unused(); print('ended', flush=True); time.sleep(60)")
    assert engine.stdout.readline() and engine.stdout.readline() == "ended\n"
    assert not list(tmp_path.glob("pymp-*"))
    engine.send_signal(signal.SIGKILL)
    engine.wait()


@pytest.mark.parametrize(("named", "stays"), [("", False), ("forkserver.start('linear');", True)])
def test_it_is_ended_where_a_run_forks_no_worker_unless_another_has_named_its_model(begun, named, stays):
    ended = begun(f"{named}forkserver.end_unused(); print(python._forkserver._forkserver_pid is not None)")
    assert ended.communicate(timeout=PATIENCE)[0].splitlines()[1:] == [str(stays)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "imported"),
    [
        ("start()", [True, False, False]),
        ("start('dp-forest')", [False, True, False]),
        ("start('linear', 'dp-forest')", [True, True, False]),
        ("start('linear'); forkserver.start('dp-forest')", [True, False, False]),
        ("end(); forkserver.start('dp-forest')", [False, True, False]),
        ("start('spec:SPEC')", [True, False, True]),
    ],
)
def test_workers_have_what_it_was_told_to_import(begun, tmp_path, function, imported):
    (tmp_path / "spec.py").write_text(SPEC.format(imports="'nowhere', 'extra'"))
    (tmp_path / "extra.py").touch()
    engine = begun(TOLD.format(function=function), str(tmp_path))
    assert engine.communicate(timeout=3 * PATIENCE)[0].splitlines()[1:] == [str(imported), "False False"]
    assert engine.returncode == 0


FOREIGN = """
import multiprocessing
sys.path.append(sys.argv[1])
forkserver.start()
if __name__ == "__main__":
    process = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(20)
    print(process.exitcode)
    process.kill()
"""


def test_a_process_of_the_users_own_ends_by_a_signal(begun, tmp_path):
    """Workers leave signals to the engine; a `Pool` of the user's waited for ever for its processes to end."""
    assert begun(FOREIGN, str(tmp_path)).communicate(timeout=2 * PATIENCE)[0].splitlines()[1:] == ["-15"]


WITHOUT = """
import fedlearn.engine.embedded.preload as preload
import httpx
modules = preload.sys.modules
print("httpx._client" in modules, httpx.Client.__name__, "client" in modules, "server" in modules)
"""


def test_workers_import_no_http_client_until_its_names_are_read():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "Client", "False", "False"]  # apps of others may call their modules so


@pytest.mark.parametrize("is_there", [True, False])
def test_what_torch_wants_for_a_gpu_is_left_out_only_where_there_can_be_none(monkeypatch, tmp_path, is_there):
    monkeypatch.setattr(preload, "DRIVERS", (str(tmp_path / "none"), str(tmp_path if is_there else tmp_path / "no")))
    assert preload.has_driver() is is_there
    monkeypatch.setattr(sys, "platform", "win32")
    assert preload.has_driver()


def test_what_hinders_its_beginning_is_said_when_there_is_a_run(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkfifo", full)
    with pytest.raises(SystemExit) as end:
        main(["simulate", "--nonsense"])
    assert end.value.code == 2
    assert "--nonsense" in capsys.readouterr().err
    with pytest.raises(OSError, match="No space left"):
        forkserver.start()
