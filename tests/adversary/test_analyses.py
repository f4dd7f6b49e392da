"""Attacks on exact analyses: small sites, bounds that do not hold, sites that send garbage.

A question with a node less is tried in `test_lying_server`, a group of one in `tests/unit/statistics/test_cells.py`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedlearn
from client.learners.sums_learner import ExactSumsLearner
from fedlearn.core.errors import RunFailed
from fedlearn.statistics import fit
from fedlearn.statistics.glm import GLM
from tests.oracles.studies import BOUNDS, patients, table

COLUMNS = ["age", "dose"]
FRAME = patients(60, seed=8)
SETTINGS = {
    "engine.name": "inline",
    "rounds.cohort": 0,
    "rounds.total": 20,
    "secure.sums": "masked",
    "secure.dropouts": 0.0,
}


def test_of_sites_of_one_record_a_run_holds_no_number_under_masks(tmp_path, monkeypatch):
    """The sums of single sites are in no file of the run, while those of all are."""
    sent, ask = [], GLM.asked

    def asked(self, state, rows):
        sent.append((len(rows), ask(self, state, rows)))
        return sent[-1][1]

    monkeypatch.setattr(GLM, "asked", asked)
    data, settings = table(FRAME[:6], "score", ["age"]), {**SETTINGS, "model.options": {"family": "normal"}}
    run = fedlearn.run(clients=6, data=data, model="glm", settings=settings, out=tmp_path, progress=False)
    stored = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    of_round_1 = sent[: run.model().facts["sites"]]
    assert 1 in [rows for rows, _ in of_round_1]
    assert np.sum([sums for _, sums in of_round_1], axis=0).tobytes() in stored
    assert not any(sums.tobytes() in stored for _, sums in sent)


def test_a_value_beyond_its_bound_moves_nothing_beyond_it():
    """One record of a huge age moves a coefficient no further than one of the largest age that is declared."""
    honest = FRAME.assign(age=FRAME.age.where(FRAME.index > 0, BOUNDS["age"][1]))
    lying = FRAME.assign(age=FRAME.age.where(FRAME.index > 0, 1e12))
    one, other = (fit("glm", table(each, "score", COLUMNS), family="normal") for each in (honest, lying))
    assert one.tables[0].rows == other.tables[0].rows
    assert "age (fewer than 5)" in " ".join(other.notes) and not one.notes


GARBAGE = {
    "too large": lambda sums: np.full_like(sums, 2**60),
    "negative": lambda sums: np.full_like(sums, -(2**60)),
    "short": lambda sums: sums[:-1],
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_site_whose_numbers_are_garbage_is_refused_and_the_answer_is_that_of_the_others(tmp_path, monkeypatch, kind):
    """Without masks, as under masks no single report is seen."""
    fit_honestly, honest = ExactSumsLearner.fit, {}

    def lie(self, state, task):
        found = fit_honestly(self, state, task)
        if task.partition_id == 2:
            found.arrays["sums"] = GARBAGE[kind](found.arrays["sums"])
        else:
            honest[task.partition_id] = len(task.indices)
        return found

    monkeypatch.setattr(ExactSumsLearner, "fit", lie)
    settings = {**SETTINGS, "secure.sums": "off", "rounds.quorum": 0.5, "model.options": {"family": "normal"}}
    run = fedlearn.run(
        clients=3, data=table(FRAME, "score", COLUMNS), model="glm", settings=settings, out=tmp_path, progress=False
    )
    assert run.model().facts["sites"] == 2 and run.model().facts["records"] == sum(honest.values()) < 60
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    assert any("refused" in json.dumps(event) for event in events)


def test_under_masks_garbage_within_the_modulus_ends_the_fit_or_is_bounded(tmp_path, monkeypatch):
    """A liar under masks moves a sum by as much as a node of the most records could; what cannot be is refused."""
    fit_honestly = ExactSumsLearner.fit

    def lie(self, state, task):
        found = fit_honestly(self, state, task)
        if task.partition_id == 2:
            found.arrays["sums"] = -np.abs(found.arrays["sums"]) - 1
        return found

    monkeypatch.setattr(ExactSumsLearner, "fit", lie)
    settings = {**SETTINGS, "model.options": {"family": "normal"}}
    with pytest.raises(RunFailed) as failed:
        fedlearn.run(
            clients=3, data=table(FRAME, "score", COLUMNS), model="glm", settings=settings, out=tmp_path, progress=False
        )
    assert "\n" not in str(failed.value)
