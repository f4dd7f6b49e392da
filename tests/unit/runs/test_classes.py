"""classes.json is read back as it was written; other files are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedlearn.runs.classes_json import ClassResults, Confusion, read_classes, write_classes

COUNTS = np.array([[3, 1], [0, 4]])


def test_what_was_written_is_read_back(tmp_path):
    results = ClassResults(["cat", "dog"], Confusion.of(4, COUNTS), Confusion.of(2, COUNTS.T))
    write_classes(tmp_path, results)
    assert read_classes(tmp_path) == results
    assert (results.best.counts == COUNTS.T).all()


def test_without_a_file_there_are_none(tmp_path):
    assert read_classes(tmp_path) is None


@pytest.mark.parametrize("changed", [{"classes": ["one"]}, {"classes": ["a", "b", "c"]}, {"final": None}, {"best": 3}])
def test_what_does_not_fit_is_said(tmp_path, changed):
    write_classes(tmp_path, ClassResults(["cat", "dog"], Confusion.of(4, COUNTS)))
    stored = json.loads((tmp_path / "classes.json").read_text())
    (tmp_path / "classes.json").write_text(json.dumps({**stored, **changed}))
    with pytest.raises(ValueError, match=r"not what was written|should have 3 rows"):
        read_classes(tmp_path)
