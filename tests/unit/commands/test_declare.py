"""``fedlearn declare``: a draft of what the owner of private data declares."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedlearn.cli import main
from fedlearn.data import load_dataset


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def declare(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def table() -> None:
    rows = (f"{20 + row % 60};{'abc'[row % 3]};{['no', 'yes'][row % 2]}\n" for row in range(90))
    Path("t.csv").write_text("age;town;y\n" + "".join(rows))


@pytest.mark.parametrize("command", [["declare"], ["client", "declare"]])
def test_a_table_is_declared_by_its_columns_and_read_so(command):
    table()
    assert declare(*command, "t.csv", "--target", "y", "--delimiter", ";") == 0
    assert tomllib.loads(Path("t.toml").read_text()) == {
        "data": "t.csv", "target": "y", "classes": ["no", "yes"], "delimiter": ";", "bounds": {"age": [0, 80]},
        "categories": {"town": ["a", "b", "c"]},
    }  # fmt: skip
    found = load_dataset("t.toml", "")
    assert len(found.train) + len(found.test) == 90 and not found.counted


def test_a_target_that_is_not_said_is_asked_for_with_the_columns(capsys):
    table()
    assert declare("declare", "t.csv", "--delimiter", ";") == 2
    assert "has the columns age, town, y: say which column is learned, by --target" in capsys.readouterr().err


def test_arrays_and_pictures_are_declared_by_classes_vocabulary_and_size():
    np.savez("x.npz", X=np.arange(40).reshape(10, 4) % 7, y=np.arange(10) % 3)
    for row in range(4):
        Path("pics", "ab"[row % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 5), (row, 0, 0)).save(f"pics/{'ab'[row % 2]}/{row}.png")
    for data in ("x.npz", "pics"):
        assert declare("declare", data) == 0
    assert tomllib.loads(Path("x.toml").read_text()) == {"data": "x.npz", "classes": 3, "vocabulary": 7}
    assert tomllib.loads(Path("pics.toml").read_text()) == {"data": "pics", "classes": ["a", "b"], "size": [5, 6]}
    assert load_dataset("pics.toml", "").spec.shape == (5, 6, 3)


def test_a_file_that_is_there_is_not_replaced(capsys):
    table()
    Path("t.toml").write_text("mine")
    assert declare("declare", "t.csv", "--target", "y", "--delimiter", ";") == 2
    assert Path("t.toml").read_text() == "mine" and "is there already" in capsys.readouterr().err
