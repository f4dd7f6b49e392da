"""`fedlearn check decomfl` makes real runs, and names mistakes that are planted in clients and server."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.algorithms.conformance.laws import LAWS
from fedlearn.algorithms.conformance.subjects import subject_of
from fedlearn.algorithms.scalars.scalar_history import ScalarHistory
from fedlearn.commands.check import walked


def verdict(law):
    subject = subject_of("decomfl", walked)
    assert law in subject.laws and law in LAWS
    (found,) = [each for each in type(subject)(subject.algorithm, (law,), subject.walk).verdicts()]
    return found


def by_clients(monkeypatch):
    honest = ScalarHistory.report_of
    monkeypatch.setattr(ScalarHistory, "report_of", lambda self, found, examples: honest(self, found, 1))


def first_weights(monkeypatch):
    monkeypatch.setattr(ScalarHistory, "weights_of", lambda self, state: self._first)


def shuffled(monkeypatch):
    honest = ScalarHistory.condensed

    def condensed(self, state):
        found = honest(self, state)
        return {**found, "scalars": np.append(state["scalars"], found["scalars"][len(state["scalars"]) :][::-1])}

    monkeypatch.setattr(ScalarHistory, "condensed", condensed)


@pytest.mark.parametrize(
    ("law", "plant", "said"),
    [
        ("walk", None, ""),
        ("other weights", by_clients, "each client weighs one"),
        ("walk", first_weights, "the history is not walked"),
        ("walk", shuffled, "none of the known mistakes"),
        pytest.param("under masks", None, "", marks=pytest.mark.long),
        pytest.param("other weights", None, "", marks=pytest.mark.long),
        pytest.param("under masks", by_clients, "each client weighs one", marks=pytest.mark.long),
    ],
)
def test_a_law_holds_and_a_planted_mistake_is_found(law, plant, said, monkeypatch):
    if plant:
        plant(monkeypatch)
    found = verdict(law)
    assert found.holds is not bool(plant), found.why
    assert said in found.why
