"""A node's memory outlasts its tasks and its SuperNode: each message goes through the real task code in a process."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from types import SimpleNamespace

import pytest
from flwr.app import Context, Message, RecordDict

from fedlearn import flower, wire
from fedlearn.config import to_flower
from fedlearn.core.cohort import Instruction
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.deployment import task
from fedlearn.engine.deployment.task import start_task
from fedlearn.flower import runtime
from fedlearn.models.loaded import initial_state
from fedlearn.models.presets import settings_from
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile

NODE, PARTITION = 7, 1
REAL_PIPE = os.pipe
SETTINGS = to_flower(
    settings_from({"clients": 3, "data.dataset": "diabetes", "model.name": "dp-forest", "out": "/runs/first"})
)
OURS = SimpleNamespace(is_ours=lambda given: True, installed={}, learn=lambda *_, **__: False)


@pytest.fixture
def handled(monkeypatch, tmp_path):
    """Return a function that has a fresh task of a fresh SuperNode handle a message; it returns what is answered."""

    def handled(message, *, settings=SETTINGS, install=lambda *_, **__: None, learned=OURS, **node_config):
        about = {"partition-id": PARTITION, "num-partitions": 3, **node_config}
        context = Context(1, NODE, about, RecordDict(), dict(settings))  # a SuperNode that has just started
        given = (
            message,
            context,
            SimpleNamespace(fab_id="", fab_version=""),
            SimpleNamespace(content=b"", hash_str=""),
        )
        answer = tmp_path / f"answer-{os.getpid()}"

        def push(client, reply, context):
            assert not ("memory" in context.state and "memory" in node_config)  # at home, or with the SuperNode
            answer.write_bytes(flower.to_bytes(reply.content) if reply.has_content() else b"")

        app = load_client_app()
        for name, stands_in in {
            "RuntimeHttpClient": SimpleNamespace(from_server_address=lambda **_: SimpleNamespace(close=lambda: None)),
            "HeartbeatSender": lambda beat: SimpleNamespace(start=lambda: None, is_running=False),
            "start_parent_process_monitor": lambda pid: None,
            "register_signal_handlers": lambda **_: None,
            "pull_task_input": lambda client: given,
            "install_from_fab": install,
            "get_project_dir": lambda *_: tmp_path,
            "get_load_client_app_fn": lambda **_: lambda *_: app,
            "push_message": push,
            "flwr_exit": lambda code, **_: os._exit(0),
        }.items():
            monkeypatch.setattr(runtime.clientapp, name, stands_in)
        started = start_task(runtime.Endpoint("127.0.0.1:1", insecure=True), "token", learned)
        assert os.waitpid(started.pid, 0) == (started.pid, 0)
        started.read_reports(learned)
        os.close(started.pipe)
        content = flower.from_bytes(answer.read_bytes())
        wire.unbox(content)
        return flower.reply_from(node_id=NODE, message_type="train", reply_to="", content=content, error=None)

    return handled


def in_a_child(work):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def ready_query():
    return flower.with_id(wire.ready_query(NODE, round_number=2, attempt=1, ttl=60.0))


def instruction():
    state = wire.pack_arrays(initial_state(SETTINGS, {}))
    message = Message(RecordDict({wire.ARRAYS: state}), NODE, "train")
    return flower.with_id(wire.with_instruction(message, Instruction(1, 1, 0), ttl=60.0))


def why_not(reply):
    partition_id, why_not = wire.read_ready_answer(reply)
    assert partition_id == PARTITION
    return why_not


def test_a_budget_that_was_spent_in_one_task_is_spent_in_the_next(handled, tmp_path):
    home = {"memory": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    assert why_not(handled(ready_query(), **home)) == ""
    assert "feature" in wire.unpack_arrays(handled(instruction(), **home).content[wire.ARRAYS])
    assert why_not(handled(ready_query(), **home)) == "not-ready"
    assert why_not(handled(ready_query(), settings={**SETTINGS, "out": "/runs/second"}, **home)) == ""


def test_an_app_is_installed_once_as_long_as_it_is_there(handled, tmp_path):
    calls, place = tmp_path / "calls", tmp_path / "app"

    def install(fab, **_):
        place.mkdir()
        with calls.open("a") as file:
            file.write("installed\n")
        return place

    learned = SimpleNamespace(is_ours=lambda given: True, installed={}, learn=lambda *_, **__: False)
    for _ in range(3):
        assert why_not(handled(ready_query(), install=install, learned=learned)) == ""
    assert calls.read_text() == "installed\n"
    assert learned.installed == {sha256(b"").hexdigest(): str(place)}
    place.rmdir()
    assert why_not(handled(ready_query(), install=install, learned=learned)) == ""
    assert calls.read_text() == "installed\n" * 2


def test_an_app_has_nothing_to_tell_its_executor(handled, monkeypatch):
    """It is code of the server's: what it wrote there would be believed of every later message."""
    pipes = []
    monkeypatch.setattr(task.os, "pipe", lambda: pipes.extend(REAL_PIPE()) or tuple(pipes[-2:]))
    app = load_client_app()

    def hostile(**given):
        with suppress(OSError):
            os.write(pipes[1], b'{"checksum": "of the next bundle", "installed": "/elsewhere"}\n')
        return app(**given)

    monkeypatch.setitem(globals(), "load_client_app", lambda: hostile)
    learned = SimpleNamespace(is_ours=lambda given: True, installed={}, learn=lambda *_, **__: False)
    assert why_not(handled(ready_query(), learned=learned)) == ""
    assert list(learned.installed) == [sha256(b"").hexdigest()]


def test_two_tasks_at_once_on_one_ledger_send_the_same_bytes_and_spend_once(handled, tmp_path):
    """The second comes while the first has booked and not yet published: it waits for it."""
    ledger = {"ledger": str(tmp_path / "ledger"), "data-name": "patients", "own-data": True, "largest-epsilon": 5.0}
    (tmp_path / "sent").mkdir()

    def ask(number):
        reply = handled(instruction(), **ledger)
        (tmp_path / "sent" / str(number)).write_bytes(flower.to_bytes(reply.content))

    for pid in [in_a_child(lambda n=number: ask(n)) for number in range(2)]:
        assert os.waitpid(pid, 0)[1] == 0
    first, second = (flower.from_bytes(file.read_bytes()) for file in (tmp_path / "sent").iterdir())
    for key in (wire.ARRAYS, wire.METRICS):
        assert first[key] == second[key]
    assert Ledger(LedgerFile(tmp_path / "ledger", "patients")).spent().epsilon == 1.0


def test_an_app_that_a_server_brings_along_is_not_even_imported(tmp_path, monkeypatch):
    given = runtime.Input(b"", "hash", {}, b"message", 60.0)
    strict = SimpleNamespace(
        installed={}, learn=lambda *_, **__: False, is_ours=lambda given: False, is_nothing_else=lambda given: False
    )

    def run(endpoint, token, *, on_input, **_):
        on_input(given)
        (tmp_path / "ran").touch()

    monkeypatch.setattr(task, "run_task", run)
    monkeypatch.setattr(task, "report_death", lambda *about: (tmp_path / "said").write_text(about[-1]))
    started = start_task(runtime.Endpoint("127.0.0.1:1", insecure=True), "token", strict, only_ours=True)
    assert os.waitpid(started.pid, 0) == (started.pid, 0)
    os.close(started.pipe)
    assert (tmp_path / "said").read_text() == "app-not-allowed"
    assert not (tmp_path / "ran").exists()


def test_without_a_home_a_node_forgets_with_its_supernode(handled):
    handled(instruction())
    assert why_not(handled(ready_query())) == ""
