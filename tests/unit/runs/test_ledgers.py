"""A ledger in files: synced before it says so, of one spender at a time, and known where a file was cut or lost."""

from __future__ import annotations

import os
import signal
import time

import pytest

from fedlearn.core.errors import BudgetExceeded, UsageError
from fedlearn.privacy import NeighboringRelation
from fedlearn.privacy.bookings import Booking
from fedlearn.privacy.ledger import Ledger
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs import ledgers
from fedlearn.runs.ledgers import LedgerFile, names_in


def asked(question="q", run="run"):
    return Booking(question, run, "dp-forest", 1, 1.0, NeighboringRelation.ADD_REMOVE, is_secure=True)


def ledger(folder, **options):
    return Ledger(LedgerFile(folder, "patients"), **options)


def in_a_child(work):
    """Do something in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    finally:
        os._exit(0)


def test_it_is_found_again_by_another_process(tmp_path):
    os.waitpid(in_a_child(lambda: ledger(tmp_path).once(asked(), lambda: b"tree", budget=1.0)), 0)
    assert ledger(tmp_path).spent().epsilon == 1.0
    assert ledger(tmp_path).published("q") == b"tree"
    assert names_in(tmp_path) == ["patients"]


def test_tasks_at_once_look_at_the_data_once_and_publish_the_same_bytes(tmp_path):
    """Each makes another answer: with secure noise no two trees are alike."""

    def task():
        def tree():
            (tmp_path / f"looked-{os.getpid()}").touch()
            time.sleep(0.05)  # a slow fit: the other tasks ask meanwhile
            return os.urandom(8)

        (tmp_path / f"sent-{os.getpid()}").write_bytes(ledger(tmp_path).once(asked(), tree, budget=1.0))

    for pid in [in_a_child(task) for _ in range(6)]:
        os.waitpid(pid, 0)
    assert len(list(tmp_path.glob("looked-*"))) == 1
    assert len(sent := [file.read_bytes() for file in tmp_path.glob("sent-*")]) == 6
    assert len(set(sent)) == 1
    assert ledger(tmp_path).spent().epsilon == 1.0


def test_tasks_of_several_runs_at_once_do_not_spend_more_than_there_is(tmp_path):
    def task(number):
        def work():
            ledger(tmp_path, most=2.0).once(asked(f"q{number}", f"run{number}"), lambda: b"%d" % number, budget=1.0)
            (tmp_path / f"sent-{number}").touch()

        return work

    for pid in [in_a_child(task(number)) for number in range(6)]:
        os.waitpid(pid, 0)
    assert len(list(tmp_path.glob("sent-*"))) == 2
    assert ledger(tmp_path).spent().epsilon == 2.0


def test_a_task_that_is_killed_at_its_data_has_spent_and_lets_go_of_the_lock(tmp_path):
    pid = in_a_child(lambda: ledger(tmp_path).once(asked(), lambda: os.kill(os.getpid(), signal.SIGKILL), budget=1.0))
    os.waitpid(pid, 0)
    assert ledger(tmp_path).spent().epsilon == 1.0
    with pytest.raises(BudgetExceeded):
        ledger(tmp_path).once(asked(), lambda: b"another", budget=1.0)


def test_it_can_be_read_while_somebody_spends(tmp_path):
    def look():
        assert ledger(tmp_path).spent().epsilon == 1.0
        return b"tree"

    ledger(tmp_path).once(asked(), look, budget=1.0)


@pytest.fixture
def three(tmp_path):
    for number in range(3):
        ledger(tmp_path).once(asked(f"q{number}", f"run{number}"), lambda n=number: b"%d" % n, budget=1.0)
    return tmp_path


@pytest.mark.parametrize("kept", range(7))
def test_a_file_that_was_cut_after_a_line_is_known_by_its_head(three, kept):
    file = three / "patients.ledger"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:kept]))
    with pytest.raises(LedgerDamaged, match=rf"line {kept + 1} is missing: 7 were written"):
        ledger(three).once(asked("new", "new"), lambda: b"no", budget=1.0)


def test_a_file_that_is_lost_is_no_new_ledger(three):
    (three / "patients.ledger").unlink()
    with pytest.raises(LedgerDamaged, match="line 1 is missing"):
        ledger(three).spent()


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"lines": "x", "check": ""}'])
def test_a_head_that_is_lost_or_damaged_is_named(three, content):
    head = three / "patients.head"
    head.unlink() if content is None else head.write_bytes(content)
    with pytest.raises(LedgerDamaged, match=r"counted by patients\.head, which is (missing|damaged)"):
        ledger(three).spent()


def test_a_file_whose_lines_were_all_written_anew_is_not_the_one_that_the_head_names(three, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for number in range(3):
        ledger(other).once(asked(f"other{number}", f"run{number}"), lambda: b"no", budget=1.0)
    (three / "patients.ledger").write_bytes((other / "patients.ledger").read_bytes())
    with pytest.raises(LedgerDamaged, match=r"line 7 is not the one that patients\.head names"):
        ledger(three).spent()


def test_a_crash_between_a_line_and_its_head_loses_nothing(three, monkeypatch):
    def crash(path, data):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "write_atomically", crash)
        with pytest.raises(KeyboardInterrupt):
            ledger(three).once(asked("new", "new"), lambda: b"no", budget=1.0)
    assert ledger(three).spent().epsilon == 4.0
    ledger(three).once(asked("q4", "run4"), lambda: b"4", budget=1.0)
    assert ledger(three).spent().epsilon == 5.0


def test_a_line_that_does_not_fit_onto_the_disk_is_taken_back_and_nothing_is_published(three, monkeypatch):
    def full(file, data):
        os.write(file.fileno(), data[:7])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            ledger(three).once(asked("new", "new"), lambda: pytest.fail("touched"), budget=1.0)
    assert ledger(three).spent().epsilon == 3.0


@pytest.mark.parametrize("name", ["", "../out", "a/b", ".hidden", "x" * 101, "two\nlines"])
def test_a_name_that_is_none_of_a_file_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="data name"):
        LedgerFile(tmp_path, name)


def spent_thrice(folder):
    for number in range(3):
        ledger(folder).once(asked(f"q{number}", f"run{number}"), lambda: b"tree", budget=1.0)


def lines_left(folder, count):
    file = folder / "patients.ledger"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:count]))
    (folder / "patients.head").unlink()


def emptied(folder):
    for file in (folder / "patients.published").iterdir():
        file.unlink()


ENDS = ("ledger", "head")
LOST = {
    "two lines are left, and no head": lambda folder: lines_left(folder, 2),
    "one line is left, and no head": lambda folder: lines_left(folder, 1),
    "only answers and lock are left": lambda folder: [folder.joinpath(f"patients.{end}").unlink() for end in ENDS],
    "only the lock is left": lambda folder: (LOST["only answers and lock are left"](folder), emptied(folder)),
    "only answers are left": lambda folder: (
        LOST["only answers and lock are left"](folder), (folder / "patients.lock").unlink(),
    ),
    "two lines and the lock are left": lambda folder: (lines_left(folder, 2), emptied(folder)),
    "two lines and the answers are left": lambda folder: (lines_left(folder, 2), (folder / "patients.lock").unlink()),
}  # fmt: skip


@pytest.mark.parametrize("loss", LOST)
def test_a_ledger_of_which_parts_are_gone_does_not_begin_anew(tmp_path, loss):
    spent_thrice(tmp_path)
    LOST[loss](tmp_path)
    with pytest.raises(LedgerDamaged):
        ledger(tmp_path).once(asked("another", "one"), lambda: b"tree", budget=1.0)
    with pytest.raises(LedgerDamaged):
        ledger(tmp_path).spent()


def test_answers_that_fill_the_disk_are_not_kept_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "FULL", 8)
    assert ledger(tmp_path).once(asked(), lambda: b"12345678", budget=1.0) == b"12345678"
    with pytest.raises(BudgetExceeded):
        ledger(tmp_path).once(asked("other", "one"), lambda: b"tree", budget=1.0)
    assert ledger(tmp_path).once(asked(), lambda: b"", budget=1.0) == b"12345678"


def test_a_disk_without_locks_keeps_no_ledger(tmp_path, no_locks):
    """Two processes would spend the same budget: refused before the client starts, and before anything is spent."""
    file = LedgerFile(tmp_path / "ledger", "mine")
    for use in (file.check_disk, lambda: Ledger(file).once(asked(), lambda: pytest.fail("answered"), budget=9.0)):
        with pytest.raises(UsageError, match=r"^--ledger .*ledger: its disk knows no locks: .*another disk$"):
            use()
    assert not file.path.exists()


def test_a_disk_without_folder_syncs_begins_no_ledger(tmp_path, no_folder_syncs):
    """A power failure would take the first line with it."""
    file = LedgerFile(tmp_path / "ledger", "mine")
    for use in (file.check_disk, lambda: Ledger(file).once(asked(), lambda: pytest.fail("answered"), budget=9.0)):
        with pytest.raises(UsageError, match="its disk syncs no folders"):
            use()
    assert not file.path.exists()


def test_a_ledger_that_somebody_spends_on_does_not_hold_up_the_look_at_its_disk(tmp_path):
    file = LedgerFile(tmp_path, "mine")
    with file.alone():
        file.check_disk()


def test_a_ledger_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^--ledger .*file: .*: name a folder of yours$"):
        LedgerFile(tmp_path / "file", "mine").check_disk()
