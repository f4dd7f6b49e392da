"""nodes.csv survives kills, and says of each node what it said."""

from __future__ import annotations

from fedlearn.runs.file_names import NODES
from fedlearn.runs.nodes_csv import NodeTable, read_nodes


def row(round_number, partition, **measured):
    return {"round": round_number, "partition": partition, "examples": 10, **measured}


def table(folder, committed=0):
    return NodeTable(folder, ["train_loss", "accuracy"], committed=committed)


def test_rows_are_read_as_they_were_written(tmp_path):
    assert read_nodes(tmp_path) == []
    writer = table(tmp_path)
    writer.append([row(1, 0, train_loss=0.5), row(1, 7, accuracy=0.25, unknown=3)])
    writer.append([])
    writer.append([{"round": 2, "partition": 3, "accuracy": 1.0}])
    assert read_nodes(tmp_path) == [
        row(1, 0, train_loss=0.5, accuracy=None),
        row(1, 7, train_loss=None, accuracy=0.25),
        {"round": 2, "partition": 3, "examples": None, "train_loss": None, "accuracy": 1.0},
    ]


def test_rows_of_rounds_that_were_never_stored_are_taken_away(tmp_path):
    writer = table(tmp_path)
    for number in (1, 2, 3):
        writer.append([row(number, 0, train_loss=float(number)), row(number, 1, train_loss=0.0)])
    with (tmp_path / NODES).open("a") as file:
        file.write("4,1,1")  # a kill has cut it short
    assert [each["round"] for each in read_nodes(tmp_path)] == [1, 1, 2, 2, 3, 3]
    again = table(tmp_path, committed=2)
    again.append([row(3, 5)])
    assert [(each["round"], each["partition"]) for each in read_nodes(tmp_path)] == [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (3, 5),
    ]


def test_what_strangers_have_written_there_is_no_row(tmp_path):
    (tmp_path / NODES).write_text("round,partition\nx,1\n\n1,\n1,2,3,4\n")
    assert read_nodes(tmp_path) == [{"round": 1, "partition": 2}]
