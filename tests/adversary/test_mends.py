"""The list of mends fits the code and the table of faults; that each test needs its mend, `mends` itself shows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from fedlearn.auditing.cases import MECHANISM_CASES
from tests.adversary import mends
from tests.adversary.leaks import LEAKS
from tests.adversary.mends import MENDS, ROOT, Ended, Mend, ended, taken_out
from tests.adversary.planted import BUGS, every_row


def rows():
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([A-Z]\d.*?) \|.*?\| (`.*) \|.*?\|$", text, re.MULTILINE)
    return {fault: set(re.findall(r"`(test_\w+)`", tests)) for names, tests in found for fault in names.split(", ")}


def test_every_mend_stands_in_the_code_once_and_its_test_is_there():
    text_of = cache(lambda file: (ROOT / file).read_text(encoding="utf-8"))
    for mend in MENDS + LEAKS:
        assert text_of(mend.file).count(mend.text) == 1, mend
        file, _, test = mend.test.partition("::")
        assert f"\ndef {test}(" in text_of(f"tests/{file}"), mend


def test_every_fault_has_a_mend_whose_test_the_table_names():
    named = rows()
    assert named.keys() == {mend.fault for mend in MENDS}
    for mend in MENDS:
        assert mend.test.partition("::")[2] in named[mend.fault], mend.fault


def test_every_test_that_holds_a_leak_is_shown_the_code_without_its_mend():
    text = (ROOT / "fedlearn" / "privacy" / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (\d+) \|.*?\| (`test_.*) \|$", text, re.MULTILINE)
    named = {leak: set(re.findall(r"`(test_\w+)`", tests)) for leak, tests in found}
    shown = {leak: {mend.test.partition("::")[2] for mend in LEAKS if mend.fault == leak} for leak in named}
    assert len(named) >= 10
    assert shown == named


def test_bugs_are_planted_where_code_stands_once_and_looked_for_by_rows_and_cases_that_there_are():
    rows = every_row()
    for bug in BUGS:
        assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.text) == 1, bug.name
        assert (
            (bug.rows or bug.cases or bug.ways)
            and rows.keys() >= set(bug.rows)
            and MECHANISM_CASES.keys() >= set(bug.cases)
        )


@pytest.mark.parametrize(("without", "expected"), [("0 == 0", Ended.PASSED), ("1 == 0", Ended.FAILED)])
def test_a_test_that_does_not_need_its_mend_is_found(tmp_path, without, expected):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("def test_x():\n    assert 1 == 1\n")
    mend = Mend("X1", "tests/test_x.py", "1 == 1", without, "test_x.py::test_x")
    with taken_out(mend, tmp_path):
        assert ended(mend.test, copy=tmp_path, seconds=mend.seconds)[0] is expected
    assert "1 == 1" in (tmp_path / mend.file).read_text()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import pytest\ndef test_x():\n    pytest.skip('not here')\n", Ended.SKIPPED),
        ("import nothing_of_this_name\n", Ended.BROKEN),
        ("import time\ndef test_x():\n    time.sleep(60)\n", Ended.HANGS),
    ],
    ids=["skipped", "broken", "hangs"],
)
def test_a_test_that_says_nothing_is_no_proof(tmp_path, body, expected):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(body)
    seconds = 2.0 if expected is Ended.HANGS else mends.LONGEST
    assert ended("test_x.py::test_x", copy=tmp_path, seconds=seconds)[0] is expected
