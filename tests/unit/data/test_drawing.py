"""One record more or less in a table moves no other: between training and test, between nodes, in any scheme."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from client.examples import partitions_of
from fedlearn.config import config_from
from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import SettingError
from fedlearn.data import load_dataset, partition_table
from fedlearn.data.by_record import BY_RECORD
from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.drawing import drawn, nothing_held_out
from fedlearn.data.partitioning import PARTITIONS
from fedlearn.models.loaded import loaded

ROWS = 30_000
COLUMNS = 3


@pytest.fixture(scope="module")
def lines():
    """Text of 30,000 rows, of which some are there many times."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 30, (ROWS, COLUMNS))
    labels = rng.choice(["no", "yes"], ROWS)
    return [",".join(map(str, [*row, label])) for row, label in zip(numbers.tolist(), labels, strict=True)]


@pytest.fixture
def table(tmp_path):
    def write(lines, name="table"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,y", *lines, ""]))
        bounds = "".join(f"{column} = [0, 30]\n" for column in "abc")
        declared = f'data = "{name}.csv"\ntarget = "y"\nclasses = ["no", "yes"]\n[bounds]\n{bounds}'
        (tmp_path / f"{name}.toml").write_text(declared)
        return str(tmp_path / f"{name}.toml")

    return write


def records(examples):
    """Return how often each record is there."""
    return Counter(map(tuple, np.column_stack([examples.inputs, examples.targets]).tolist()))


def assert_one_taken_out(whole, less):
    """One record is gone from the parts, and no other record is in another part."""
    gone = [first - second for first, second in zip(whole, less, strict=True)]
    come = [second - first for first, second in zip(whole, less, strict=True)]
    assert sum(part.total() for part in gone) <= 1 and not any(come)


@pytest.mark.parametrize("at", [0, 5_000, 20_000, ROWS - 1])
def test_one_line_less_in_a_file_moves_no_other_between_training_and_test(table, lines, at):
    whole, less = (load_dataset(table(some), "") for some in (lines, lines[:at] + lines[at + 1 :]))
    parts = [(records(found.train), records(found.test)) for found in (whole, less)]
    assert_one_taken_out(*parts)
    assert len(whole.train) + len(whole.test) == len(less.train) + len(less.test) + 1
    assert abs(len(whole.test) / ROWS - 0.2) < 0.02
    for part in ("train", "test"):  # and the others stand in the order of the file
        first, second = (getattr(found, part).inputs for found in (whole, less))
        if len(first) > len(second):
            differ = np.flatnonzero((first[:-1] != second).any(axis=1))
            first = np.delete(first, differ[0] if len(differ) else len(second), axis=0)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("scheme", [each for each in BY_RECORD if each != "natural"])
def test_one_line_less_in_a_file_moves_no_other_between_nodes(table, lines, scheme):
    settings = {"model.name": "dp-naive-bayes", "clients": 25, "data.partition": scheme, "data.classes_per_node": 1}
    dealt = []
    for some in (lines, lines[:77] + lines[78:]):
        config = config_from({**settings, "data.dataset": table(some)})
        held, train = partitions_of(config), loaded(config)[0].train
        dealt.append([records(train.at(held.indices(node))) for node in range(25)])
        assert sum(len(held.indices(node)) for node in range(25)) == len(train)
    assert_one_taken_out(*dealt)


@pytest.mark.parametrize("scheme", ["dirichlet", "pathological"])
def test_tenths_of_a_target_are_those_of_its_declared_bounds(tmp_path, scheme):
    """Without the largest of twenty targets all others are in the same tenth."""
    dealt = []
    for name, targets in (("whole", [*range(19), 100]), ("less", [*range(19)])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *(f"{y},{y}" for y in targets), ""]))
        declared = f'data = "{name}.csv"\ntarget = "y"\ntarget_bounds = [0, 20]\nbounds = {{x = [0, 100]}}\n'
        (tmp_path / f"{name}.toml").write_text(declared)
        settings = {"model.name": "dp-forest", "clients": 5, "data.partition": scheme, "data.classes_per_node": 1}
        config = config_from({**settings, "data.dataset": str(tmp_path / f"{name}.toml")})
        held, train = partitions_of(config), loaded(config)[0].train
        dealt.append([records(train.at(held.indices(node))) for node in range(5)])
    assert_one_taken_out(*dealt)


def test_shares_are_what_chance_makes_of_even_ones(table, lines):
    config = config_from({"model.name": "dp-naive-bayes", "clients": 25, "data.dataset": table(lines)})
    sizes = partitions_of(config).sizes()
    each = sizes.sum() / 25
    assert (abs(sizes - each) < 5 * np.sqrt(each)).all()


def test_nodes_have_the_shares_of_their_scheme(table, lines):
    found = load_dataset(table(lines), "")

    def counts(scheme, nodes=4, **settings):
        held = partition_table(found, DataSettings(partition=scheme, **settings), num_partitions=nodes, seed=1)
        rows = [held.indices(node) for node in range(nodes)]
        return np.array([np.bincount(found.train.targets[mine], minlength=2) for mine in rows])

    linear, square = (counts(scheme).sum(axis=1) for scheme in ("linear", "square"))
    np.testing.assert_allclose(linear / linear.sum(), np.arange(1, 5) / 10, atol=0.01)
    np.testing.assert_allclose(square / square.sum(), np.arange(1, 5) ** 2 / 30, atol=0.01)
    assert (counts("pathological", classes_per_node=1) > 0).tolist() == [[True, False], [False, True]] * 2
    assert (counts("pathological", classes_per_node=2) > 0).all()
    shares = counts("dirichlet", nodes=50, alpha=0.1)
    assert np.ptp(shares / len(found.train)) > 0.1


def test_seeds_and_purposes_draw_apart_and_equal_records_alike():
    rows = Examples(np.array([[1.0, np.nan], [1.0, -np.nan], [-0.0, 2.0], [0.0, 2.0], [0.0, 3.0]]), np.arange(5) // 2)
    first = drawn(rows, seed=1, purpose="a")
    assert first[0] == first[1] and first[2] == first[3] and len(set(first.tolist())) == 3
    assert not set(first) & set(drawn(rows, seed=2, purpose="a")) | set(first) & set(drawn(rows, seed=1, purpose="b"))
    np.testing.assert_array_equal(drawn(rows.at(slice(1, 4)), seed=1, purpose="a"), first[1:4])


def test_draws_are_even():
    rows = Examples(np.arange(100_000.0)[:, None], np.zeros(100_000, np.int64))
    counts = np.bincount((drawn(rows, seed=3, purpose="test") * 20).astype(int), minlength=20)
    assert ((counts - 5000) ** 2 / 5000).sum() < 60  # chi-square of 19 degrees


@pytest.mark.parametrize("scheme", [*sorted(set(PARTITIONS) - set(BY_RECORD)), "shard", "who.csv", "os:getcwd"])
def test_a_scheme_that_would_move_others_is_refused_for_a_private_model(table, lines, scheme):
    config = config_from({"model.name": "dp-naive-bayes", "data.dataset": table(lines[:99]), "data.partition": scheme})
    with pytest.raises(SettingError, match="would move others, which a private model forbids: take iid"):
        partitions_of(config)


def test_no_share_of_a_private_node_is_held_out():
    config = config_from({"model.name": "dp-forest", "data.dataset": "diabetes", "data.node_test_share": 0.3})
    with pytest.raises(SettingError, match=r"data\.node_test_share = 0\.3: no client measures a private model"):
        partitions_of(config)


def test_classes_that_nobody_declared_skew_nothing():
    rows = Examples(np.zeros((9, 2), np.float32), np.arange(9.0))
    numbers = Dataset("made", rows, rows, num_classes=0, mean=(), std=(), fingerprint="made")
    with pytest.raises(SettingError, match="declares neither classes nor bounds"):
        partition_table(numbers, DataSettings(partition="dirichlet"), num_partitions=2, seed=1, by_record=True)


def test_records_are_natural_partitions_of_their_own():
    rows = Examples(np.arange(6.0)[:, None], np.zeros(6, np.int64), np.array([1, 0, 2, 1, 1, 2]))
    found = Dataset("made", rows, rows, num_classes=2, mean=(), std=(), fingerprint="made")
    held = partition_table(found, DataSettings(partition="natural"), num_partitions=2, seed=1, by_record=True)
    assert [held.indices(node).tolist() for node in range(2)] == [[1], [0, 3, 4]]


def test_all_rows_of_a_table_are_there_in_the_order_of_the_file_where_none_is_held_out(table, lines):
    with nothing_held_out():
        found = load_dataset(table(lines[:999]), "")
    assert len(found.test) == 0
    assert [",".join(f"{cell:g}" for cell in row) for row in found.train.inputs] == [
        line.rpartition(",")[0] for line in lines[:999]
    ]


def test_all_rows_of_a_file_that_declares_nothing_are_there_where_none_is_held_out(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x},{x % 2}.5\n" for x in range(50)))

    def read():
        return load_dataset(str(tmp_path / "t.csv"), "", options='{"target": "y"}')

    held = [len(read().test)]
    with nothing_held_out():
        found = read()
    held.append(len(read().test))
    assert (held, len(found.test)) == ([10, 10], 0)
    assert found.train.inputs[:, 0].tolist() == list(range(50))


def test_a_scheme_by_records_takes_no_options(table, lines):
    settings = {"data.partition": "linear", "data.partition_options": '{"sizes": 3}', "model.name": "dp-naive-bayes"}
    config = config_from({**settings, "data.dataset": table(lines[:99])})
    with pytest.raises(SettingError, match=r"data\.partition_options"):
        partitions_of(config)
