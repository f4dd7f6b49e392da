"""The pool does its tasks whatever happens to workers, and leaves no trace of workers that have ended."""

from __future__ import annotations

import gc
import os
import signal
import time
from multiprocessing import forkserver

import numpy as np
import psutil
import pytest

from fedlearn.core.errors import RunFailed, SettingError, UsageError
from fedlearn.engine.embedded import embedded_grid, worker_process
from fedlearn.engine.embedded.embedded_grid import EmbeddedGrid
from fedlearn.engine.embedded.pool import VAIN_DEATHS
from fedlearn.engine.embedded.sharing import Directory, SharedSlots
from fedlearn.engine.embedded.tasks import Begin, CallTask
from tests.waiting import wait_until


def calls(pool, function, *arguments, **patience):
    return EmbeddedGrid(pool, 20, {}).call(f"calls:{function}", {"w": np.arange(3.0)}, arguments, **patience)


def descriptors() -> int:
    gc.collect()
    return len(list(os.scandir("/proc/self/fd")))


def test_results_come_in_the_order_of_the_arguments(pool_of):
    assert calls(pool_of(3), "total", *[(n,) for n in range(50)]) == [3.0 + n for n in range(50)]
    assert calls(pool_of(1), "total") == []


def test_a_worker_that_dies_before_or_between_tasks_is_replaced(pool_of):
    pool = pool_of(2)
    for _ in range(3):
        for worker in pool._workers:
            worker.process.kill()
        assert calls(pool, "total", (1,), (2,), (3,)) == [4.0, 5.0, 6.0]


def test_a_call_over_which_a_worker_dies_is_made_again(pool_of, tmp_path):
    assert calls(pool_of(2), "dies_once", (str(tmp_path / "died"),), (str(tmp_path / "died"),)) == [True, True]


@pytest.fixture
def short_calls(monkeypatch) -> None:
    monkeypatch.setattr(embedded_grid, "CALL_PATIENCE", 0.5)


def test_a_call_that_hangs_is_made_again_by_another_worker(pool_of, short_calls, tmp_path):
    assert calls(pool_of(2), "hangs_once", (str(tmp_path / "one"),), (str(tmp_path / "two"),)) == ["ended", "ended"]


def test_a_call_that_hangs_on_every_worker_fails_the_run(pool_of, short_calls):
    with pytest.raises(RunFailed, match=r"^calls:hangs has not ended on a worker within 2 s, nor in the tries before"):
        calls(pool_of(1), "hangs", ())


def test_an_evaluation_hangs_where_nothing_has_ended_for_as_long_as_nodes_have_to_report(pool_of, monkeypatch):
    """Another worker has twice as long. The setting that gives it longer is named."""
    monkeypatch.setattr(embedded_grid, "LEAST_PATIENCE", 0.1)
    begin = time.monotonic()
    with pytest.raises(RunFailed, match=r"within 0.6 s, .*; if it needs so long, raise rounds.reporting_deadline$"):
        calls(pool_of(2), "hangs", (), (), seconds=0.3)
    assert 0.9 <= time.monotonic() - begin < 30


def test_many_calls_may_take_longer_together_than_one_may(pool_of, monkeypatch, caplog):
    """Each call that ends shows that the calls do not hang."""
    monkeypatch.setattr(embedded_grid, "LEAST_PATIENCE", 1.0)
    pool = pool_of(1)
    calls(pool, "total", (1,))
    assert calls(pool, "slow", *[()] * 10, seconds=0.0) == ["slow"] * 10
    assert "hung" not in caplog.text


def test_calls_that_always_kill_the_worker_fail_the_run(pool_of):
    with pytest.raises(RunFailed, match=rf"^{VAIN_DEATHS} worker processes in a row died \(exit code 3\)"):
        calls(pool_of(2), "dies", (0,), (1,))


def test_an_error_of_ours_comes_back_as_one_line_with_its_exit_code(pool_of):
    with pytest.raises(UsageError, match=r"^model.name = 'x': choose another$"):
        calls(pool_of(2), "bad_setting", ())
    with pytest.raises(RunFailed, match=r"(?s)could not do its work:\nTraceback .*ZeroDivisionError"):
        calls(pool_of(2), "divides_by_zero", ())
    assert issubclass(SettingError, UsageError)


@pytest.mark.parametrize("ending", ["it ends", "its worker is killed"])
def test_what_waits_behind_a_task_that_hangs_is_done_by_another_worker_and_counts_once(pool_of, tmp_path, ending):
    pool = pool_of(2)
    lying = SharedSlots(lambda memory: pool.announce(("shared memory", memory.slot), memory)).write(
        1, {"w": np.arange(3.0)}
    )
    go = tmp_path / "go"
    tasks = [CallTask(0, "calls:waits_for", lying, (str(go),))]
    tasks += [CallTask(index, "calls:total", lying, (index,)) for index in range(1, 12)]
    pool.submit(tasks)
    (hanging,) = [worker for worker in pool._workers if tasks[0] in worker.tasks]
    assert len(hanging.tasks) == 2
    results = {}
    while len(results) < 11:
        results |= {task.index: done.result for task, done, _ in pool.wait(10.0)}
    assert results == {index: 3.0 + index for index in range(1, 12)}
    assert not pool.is_idle
    go.touch()
    if ending == "its worker is killed":
        hanging.process.kill()
    while not pool.is_idle:
        for task, done, _ in pool.wait(10.0):
            assert (task.index, done.result) == (0, "waited")
    assert calls(pool, "total", *[(n,) for n in range(9)]) == [3.0 + n for n in range(9)]


def test_a_client_app_that_cannot_be_imported_fails_the_run(pool_of):
    with pytest.raises(RunFailed, match="No module named 'nowhere'"):
        calls(pool_of(2, client_app="nowhere:app"), "total", (1,))


def test_results_larger_than_a_pipe_come_back_whole_while_tasks_go_out(pool_of):
    sent = [(bytes(n * 300_000),) for n in range(6)]
    assert calls(pool_of(2), "echo", *sent) == [b"".join(each) for each in sent]


def test_a_worker_killed_in_the_middle_of_a_long_answer_is_replaced(pool_of, tmp_path):
    (size,) = {len(each) for each in calls(pool_of(1), "dies_while_it_answers", (str(tmp_path / "died"),))}
    assert size == 5_000_000


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(worker_process, "PATIENCE", 1)


def test_a_stopped_worker_that_is_sent_more_than_a_pipe_takes_is_replaced(pool_of, impatient):
    pool = pool_of(1)
    assert calls(pool, "total", (1,)) == [4.0]
    (stopped,) = pool._workers
    os.kill(stopped.process.pid, signal.SIGSTOP)
    assert calls(pool, "echo", (bytes(3_000_000),)) == [bytes(3_000_000)]
    assert not psutil.pid_exists(stopped.process.pid)


def test_a_worker_stopped_in_the_middle_of_a_long_answer_is_replaced(pool_of, impatient, tmp_path):
    pool = pool_of(1)
    assert [len(each) for each in calls(pool, "stops_while_it_answers", (str(tmp_path / "stopped"),))] == [5_000_000]


def test_a_worker_that_never_ends_what_another_has_done_for_it_is_replaced(pool_of, monkeypatch, tmp_path):
    monkeypatch.setattr(worker_process, "IN_VAIN", 0.5)  # seconds that it may take
    workers = pool_of(2)
    lying = SharedSlots(lambda memory: workers.announce(("shared memory", memory.slot), memory)).write(1, {})
    go = tmp_path / "go"
    tasks = [CallTask(0, "calls:waits_for", lying, (str(go),))]
    tasks += [CallTask(index, "calls:hangs_again", lying, (str(tmp_path / str(index)),)) for index in range(1, 9)]
    workers.submit(tasks)
    (first,) = [worker for worker in workers._workers if tasks[0] in worker.tasks]
    ended = set()
    while len(ended) < len(tasks):
        ended |= {task.index for task, _, _ in workers.wait(10.0)}
        if len(ended) == len(tasks) - 1:
            go.touch()  # its next task has been done by the other worker: it begins it in vain, and hangs
    assert workers.is_idle
    assert not workers.is_quiet
    time.sleep(0.6)  # longer than it may take
    assert calls(workers, "total", (1,), (2,)) == [4.0, 5.0]
    assert first not in workers._workers
    assert workers.is_quiet


def test_workers_have_the_environment_and_folder_of_the_engine_now(pool_of, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert calls(pool_of(1, COLOR="red"), "around", ()) == [("red", str(tmp_path))]
    assert calls(pool_of(1), "around", ()) == [(None, str(tmp_path))]


def test_the_same_workers_serve_one_run_after_another(pool_of):
    pool = pool_of(2, COLOR="red")
    assert {color for color, _ in calls(pool, "around", (), (), (), ())} == {"red"}
    pids = {worker.process.pid for worker in pool._workers}
    pool.begin(Begin({}, 20, {**os.environ, "COLOR": "blue"}, "small_app:app"))
    assert {color for color, _ in calls(pool, "around", (), (), (), ())} == {"blue"}
    assert {worker.process.pid for worker in pool._workers} == pids
    for worker in pool._workers:
        worker.process.kill()
    assert {color for color, _ in calls(pool, "around", (), ())} == {"blue"}


def test_cancelled_tasks_are_forgotten_and_busy_workers_ended(pool_of, tmp_path):
    pool = pool_of(2)
    grid = EmbeddedGrid(pool, 20, {})
    processes = [worker.process for worker in pool._workers]
    assert list(grid.call("calls:total", {"w": np.zeros(1)}, [(1,), (1,)])) == [1.0, 1.0]
    hangs = tmp_path / "hangs"
    grid._pool.submit([CallTask(0, "calls:hangs_once", Directory(1, ()), (str(hangs),))])
    wait_until(hangs.exists, "the call to begin")
    assert not pool.is_idle
    pool.cancel()
    assert pool.is_idle
    assert sorted(process.is_alive() for process in processes) == [False, True]
    assert calls(pool, "total", (1,), (2,)) == [4.0, 5.0]


def test_workers_and_their_descriptors_are_gone_after_close(pool_of):
    pool_of(1).close()
    before = descriptors()
    for _ in range(3):
        pool = pool_of(2)
        assert calls(pool, "total", (1,)) == [4.0]
        pids = [worker.process.pid for worker in pool._workers]
        pool.close()
        del pool
        assert not any(psutil.pid_exists(pid) for pid in pids)
    assert descriptors() == before


@pytest.mark.slow
def test_replaced_workers_leave_no_descriptor(pool_of):
    pool = pool_of(1)
    counts = []
    for _ in range(8):
        pool._workers[0].process.kill()
        assert calls(pool, "total", (1,)) == [4.0]
        counts.append(descriptors())
    assert len(set(counts[1:])) == 1


def test_the_run_goes_on_when_the_workers_parent_is_gone(pool_of):
    pool = pool_of(2)
    assert calls(pool, "total", (1,)) == [4.0]
    parent = psutil.Process(forkserver._forkserver._forkserver_pid)
    parent.kill()
    wait_until(lambda: not parent.is_running() or parent.status() == psutil.STATUS_ZOMBIE, "its end")
    assert calls(pool, "total", (1,), (2,)) == [4.0, 5.0]
    for worker in pool._workers:
        worker.process.kill()
    assert calls(pool, "total", (1,)) == [4.0]


@pytest.mark.slow
def test_workers_can_be_spawned_too(pool_of):
    pool = pool_of(2, start_method="spawn")
    assert calls(pool, "total", (1,), (2,)) == [4.0, 5.0]
    grid = EmbeddedGrid(pool, 20, {})
    from flwr.app import ConfigRecord, Message, RecordDict

    replies = grid.send_and_receive([Message(RecordDict({"config": ConfigRecord()}), n, "query") for n in (2, 3)])
    assert [reply.content["answer"]["partition"] for reply in replies] == [0, 1]
