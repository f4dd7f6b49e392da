"""The spent epsilon of a run counts all reports that came, whatever their outcome."""

from __future__ import annotations

import json

import pytest

from fedlearn.config import config_from
from fedlearn.runs.spending import counted_in, notices_of, promised, spent_by_partition, without_exact


@pytest.fixture
def events(tmp_path):
    def write(*events):
        path = tmp_path / "events.jsonl"
        path.write_text("".join(json.dumps({"time": 0, **event}) + "\n" for event in events))
        return spent_by_partition(path, "epsilon", most=2.0)

    return write


def report(partition, event="reported", **fields):
    return {"event": event, "partition": partition, "bytes": 3059, **fields}


def test_a_report_counts_though_its_round_was_abandoned_and_only_once_for_its_node(events):
    abandoned = {"event": "abandoned", "round": 1, "attempt": 1, "reason": "3 of 5 clients reported"}
    assert events(report(0, epsilon=1.0), report(4, epsilon=1.0), abandoned, report(0, epsilon=1.0)) == {0: 1.0, 4: 1.0}


def test_the_most_that_a_node_has_said_counts(events):
    assert events(report(0, epsilon=0.5), report(0, epsilon=1.5), report(0, epsilon=1.0)) == {0: 1.5}


@pytest.mark.parametrize("event", ["reported", "refused", "late-report-refused"])
def test_of_a_report_of_which_nothing_is_believed_the_whole_budget_counts(events, event):
    assert events(report(3, event)) == {3: 2.0}
    assert events(report(3, event, epsilon="much")) == {3: 2.0}


def test_a_node_from_which_nothing_came_has_published_nothing(events):
    silent = [{"event": kind, "partition": 1, "reason": "gone"} for kind in ("late", "failed", "not-ready", "refused")]
    assert events(*silent, {"event": "ready", "partition": 1}) == {}


def test_a_log_that_is_not_there_says_nothing(tmp_path):
    assert spent_by_partition(tmp_path / "events.jsonl", "epsilon", most=1.0) == {}


@pytest.mark.parametrize(
    ("public", "said"),
    [
        (False, "epsilon = 1.5 (add or remove one record; unit: record)"),
        (True, "epsilon = 3 (replace one record; unit: record)"),
    ],
)
def test_what_a_run_may_cost_says_in_which_relation(public, said):
    assert str(promised(config_from({"privacy.epsilon": 1.5, "privacy.public_sizes": public}))) == said


SEEDED, MEASURED = "seeded noise: reproducible, protects nobody", "test rows are measured exactly"


@pytest.mark.parametrize(
    ("noise", "where", "test_is_public", "words"),
    [
        ("secure", "server", True, []),
        ("secure", "none", False, ["nothing is evaluated"]),
        ("auto", "none", False, ["nothing is evaluated"]),
        ("secure", "none", True, []),
        ("seeded", "server", False, [SEEDED, MEASURED]),
        ("seeded", "server", True, [SEEDED]),
        ("seeded", "none", False, [SEEDED]),
    ],
)
def test_what_is_measured_of_test_rows_is_said_beside_an_epsilon(noise, where, test_is_public, words):
    config = config_from({"model.name": "dp-naive-bayes", "privacy.noise": noise, "evaluation.where": where})
    notices = notices_of(config, test_is_public=test_is_public)
    assert [notice[: len(word)] for notice, word in zip(notices, words, strict=True)] == words


@pytest.mark.parametrize(
    ("noise", "test_is_public", "left"),
    [("secure", False, "none"), ("auto", False, "none"), ("secure", True, "server"), ("seeded", False, "server")],
)
def test_private_test_rows_are_not_measured_under_noise_that_protects(noise, test_is_public, left, caplog):
    config = config_from({"model.name": "dp-naive-bayes", "privacy.noise": noise})
    assert without_exact(config, test_is_public=test_is_public).evaluation.where == left
    assert len(caplog.messages) == (left == "none")
    assert all(message.startswith("evaluation.where = server: nothing is evaluated") for message in caplog.messages)


def test_what_an_epsilon_counts_in_names_relation_unit_and_trust():
    local = config_from({"model.name": "dp-forest"})
    shared = config_from({"model.name": "dp-naive-bayes", "privacy.trust": "distributed", "privacy.public_sizes": True})
    assert counted_in(local) == "add or remove one record; unit: record; local noise"
    assert counted_in(shared) == "replace one record; unit: record; distributed noise"
