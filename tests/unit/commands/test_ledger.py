"""The command that shows and checks ledgers."""

from __future__ import annotations

import pytest

from fedlearn.cli import main
from fedlearn.privacy import NeighboringRelation, PrivacyUnit
from fedlearn.privacy.accounts import GaussianRounds
from fedlearn.privacy.bookings import Booking
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile
from fedlearn.runs.node_sets import SUFFIX, line_after


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["patients", "patients", "staff"]):
        booking = Booking(
            f"q{number}", f"run-{number}", "dp-forest", 1, 0.5, NeighboringRelation.ADD_REMOVE, True, time=86400
        )
        Ledger(LedgerFile(tmp_path, name)).once(booking, lambda: b"tree", budget=1.0)
    return tmp_path


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["ledger", *map(str, arguments)])
    return end.value.code


def test_show_lists_every_booking_and_what_it_comes_to(folder, capsys):
    assert command("show", folder) == 0
    said = capsys.readouterr().out
    assert "epsilon = 1 (add or remove one record; unit: record)" in said
    assert "epsilon = 0.5 (add or remove one record; unit: record)" in said
    (first,) = [" ".join(line.split()) for line in said.splitlines() if "run-0" in line]
    assert first == "1970-01-02 00:00 run-0 dp-forest 1 0.5 add or remove one record secure yes 0.5"


def test_gaussian_noise_is_listed_by_its_parameters_and_counted_at_a_delta(tmp_path, capsys):
    for number in range(2):
        booking = Booking(
            f"q{number}", "run", "cnn", number + 1, 0.0, NeighboringRelation.ADD_REMOVE, True, time=86400,
            unit=PrivacyUnit.NODE, mechanism=GaussianRounds(4.0, 1, 0.2), planned=30,
        )  # fmt: skip
        ledger = Ledger(LedgerFile(tmp_path, "patients"), most=8.0, delta=1e-5)
        ledger.once(booking, lambda: b"sum", budget=8.0, delta=1e-5)
    assert command("show", tmp_path, "--delta", "1e-5") == 0
    said = capsys.readouterr().out
    assert "delta = 1e-05 (add or remove one client; unit: client)" in said
    first = next(" ".join(line.split()) for line in said.splitlines() if "z 4" in line)
    assert first.startswith("1970-01-02 00:00 run cnn 1 z 4 x 1 of 30, rate 0.2 add or remove one client secure yes 0.")
    assert command("check", tmp_path) == 0
    assert "2 bookings, 2 published, epsilon = 0." in capsys.readouterr().out
    assert command("show", tmp_path, "--delta", "1") == 2
    assert "--delta 1: must be a probability" in capsys.readouterr().err


def test_check_finds_nothing_wrong_with_what_was_written(folder, capsys):
    assert command("check", folder) == 0
    assert "patients.ledger: sound; 2 bookings, 2 published, epsilon = 1" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["show", "check"])
def test_the_first_bad_line_is_named(folder, action, capsys):
    file = folder / "patients.ledger"
    file.write_bytes(file.read_bytes().replace(b"run-1", b"run-9"))
    assert command(action, folder) == 1
    error = capsys.readouterr().err
    assert "patients.ledger: line 4 was changed" in error
    assert len(error.splitlines()) == 1


def test_check_looks_at_the_answers_too(folder, capsys):
    for answer in (folder / "staff.published").iterdir():
        answer.write_bytes(b"another")
    assert command("show", folder) == 0
    assert command("check", folder) == 1
    assert "staff.ledger: line 3 names an answer that is gone or was changed" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["show", "check"])
def test_sets_of_exact_sums_are_counted_and_looked_at_too(tmp_path, action, capsys):
    file = LedgerFile(tmp_path, "patients", suffix=SUFFIX)
    for nodes in ({"aa", "bb", "cc"}, {"aa", "dd"}):
        with file.alone():
            file.append(line_after(file.read(), nodes))
    assert command(action, tmp_path) == 0
    assert "patients.sets: sound; exact sums over 2 sets of clients" in capsys.readouterr().out
    file.path.write_bytes(file.path.read_bytes().replace(b'"dd"', b'"ee"'))
    assert command(action, tmp_path) == 1
    assert "patients.sets: line 2" in capsys.readouterr().err
    file.path.unlink()
    assert command(action, tmp_path) == 1
    assert "patients.sets: line 1 is missing: 2 were written" in capsys.readouterr().err


def test_a_folder_without_ledgers_is_named(tmp_path, capsys):
    assert command("show", tmp_path) == 2
    assert "there is no ledger" in capsys.readouterr().err
