"""Why tests were skipped is said at the end, each reason once."""

from __future__ import annotations

from types import SimpleNamespace

from tests.conftest import pytest_terminal_summary


def said(*reasons):
    lines = []
    skipped = [SimpleNamespace(longrepr=("file.py", 3, f"Skipped: {reason}")) for reason in reasons]
    pytest_terminal_summary(
        SimpleNamespace(stats={"skipped": skipped} if skipped else {}, section=lines.append, write_line=lines.append)
    )
    return lines


def test_each_reason_is_said_once_with_the_number_of_tests():
    lines = said("nginx is not installed", "there is no GPU", "nginx is not installed")
    assert lines == ["skipped, and why", "    2 nginx is not installed", "    1 there is no GPU"]


def test_nothing_is_said_where_nothing_was_skipped():
    assert said() == []
