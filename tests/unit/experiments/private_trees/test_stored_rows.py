"""Results of experiments outlive a kill, row by row."""

from __future__ import annotations

import pytest

from experiments.private_trees.stored_rows import StoredRows

COLUMNS = ("model", "mae")
ROWS = [{"model": "tree, deep", "mae": 0.25}, {"model": "forest", "mae": 0.125}]
AS_TEXT = [{"model": "tree, deep", "mae": "0.25"}, {"model": "forest", "mae": "0.125"}]


def filled(path):
    stored = StoredRows(path, COLUMNS)
    for row in ROWS:
        stored.add(row)
    return stored


def test_rows_are_there_at_once_and_in_the_next_process(tmp_path):
    path = tmp_path / "folder" / "rows.csv"
    assert filled(path).rows == AS_TEXT
    assert StoredRows(path, COLUMNS).rows == AS_TEXT


@pytest.mark.parametrize("lost", range(1, 13))
def test_a_torn_last_row_is_dropped_and_can_be_written_again(lost, tmp_path):
    path = tmp_path / "rows.csv"
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    again = StoredRows(path, COLUMNS)
    assert again.rows == AS_TEXT[:1]
    again.add(ROWS[1])
    assert path.read_bytes() == whole


def test_a_torn_head_is_written_again(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("model,m")
    assert filled(path).rows == AS_TEXT


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("other,columns\n1,2\n")
    with pytest.raises(SystemExit, match=r"its columns are other,columns, not model,mae; name another file"):
        StoredRows(path, COLUMNS)
    assert path.read_text() == "other,columns\n1,2\n"
