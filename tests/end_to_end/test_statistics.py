"""Statistics of all clients by secure sums."""

from __future__ import annotations

import numpy as np
import pytest

import fedlearn
from fedlearn.models.loaded import dataset_of
from fedlearn.runs.statistics_json import read_statistics

EXACT = {
    "clients": 6, "data.dataset": "diabetes", "model.name": "statistics", "secure.sums": "masked",
    "strategy.name": "sums", "rounds.cohort": 0, "rounds.total": 1, "rounds.quorum": 0.8,
    "secure.dropouts": 0.2, "model.options": {"bins": 5},
}  # fmt: skip


def test_exact_statistics_are_those_of_all_rows(execute):
    run = fedlearn.load(execute(EXACT, engine="inline").folder)
    found, data = run.model(), dataset_of(run.settings)
    assert found.count == len(data.train) and found.deviation == 0
    stored = read_statistics(run.folder)
    assert stored.count == found.count and list(stored.columns) == list(found.columns)
    assert all(stored.columns[name].counts == each.counts.tolist() for name, each in found.columns.items())
    assert stored.lines()[1:] == str(found).splitlines()[1:]  # what the command prints is what the model says
    assert "Statistics of all clients" in run.report().read_text()
    for (name, (low, high, *_)), values in zip(data.spec.table.bounds.items(), data.train.inputs.T, strict=False):
        assert found.columns[name].mean == pytest.approx(np.clip(values, low, high).mean(), abs=(high - low) / 1000)


@pytest.mark.long
def test_the_bytes_are_the_same_without_masks_and_on_workers(execute):
    shas = {
        execute({**EXACT, "secure.sums": sums}, engine=engine).sha
        for sums, engine in (("masked", "inline"), ("unmasked", "inline"), ("masked", "embedded"))
    }
    assert len(shas) == 1


def test_no_node_says_its_number_of_records_in_the_clear(execute):
    run = execute(EXACT, engine="inline")
    assert fedlearn.load(run.folder).nodes["examples"].isna().all()
