"""One more line in the file of a table changes the answers of nodes by no more than was paid for."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fedlearn.auditing.federated_trees.file_replays import FILES, answers_of
from fedlearn.auditing.replay import replay
from fedlearn.data import encoded_tables

ONE, THREE = "dp-naive-bayes, from a file to its node", "dp-naive-bayes, from a file to three nodes"


@pytest.mark.parametrize("name", [ONE, "dp-boosting, from a file to three nodes"])
def test_no_line_of_a_file_loses_more_than_the_claim(name):
    result = replay(name, FILES[name], pairs=12, seed=1)
    assert not result.is_refuted, str(result)
    assert result.largest > 0.9  # the line is read


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_no_line_of_a_file_loses_more_than_the_claim_in_many_pairs(name):
    result = replay(name, FILES[name], pairs=500, seed=2)
    assert not result.is_refuted, str(result)
    assert not result.missed, str(result)


def test_what_is_read_is_kept_in_no_cache_of_the_users():
    before = os.environ.get("FEDLEARN_CACHE")
    pair = answers_of("dp-naive-bayes", clients=1)(np.random.default_rng(1))
    pair.second()
    assert os.environ.get("FEDLEARN_CACHE") == before


@pytest.mark.parametrize("name", [ONE, THREE])
def test_a_split_by_the_number_of_rows_is_found(name, monkeypatch):
    """As it once was: a permutation of n holds rows out, and another one with one row more."""
    numbers_of = encoded_tables.read_columns

    def split(path, schema, dialect):
        columns = numbers_of(path, schema, dialect)
        count = len(columns[schema.target])
        kept = np.sort(np.random.default_rng(20).permutation(count)[count // 5 :])
        return {name: values[kept] for name, values in columns.items()}

    monkeypatch.setattr(encoded_tables, "read_columns", split)
    assert replay(name, FILES[name], pairs=60, seed=3, stops=True).is_refuted
