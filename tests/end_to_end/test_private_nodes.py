"""Runs that protect nodes: what they refuse, release and keep; `test_audited_nodes.py` replays them on neighbors."""

from __future__ import annotations

import csv
import math
import re
import signal
from itertools import pairwise

import numpy as np
import pytest

import client.answer
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.file_names import NODES

PRIVATE = {
    "model.name": "fedlearn.auditing.nodes.chosen_model:model",
    "data.dataset": "digits", "clients": 6, "rounds.cohort": 4,
    "rounds.total": 3, "rounds.quorum": 0.1, "privacy.protects": "nodes", "privacy.epsilon": 4.0,
    "privacy.delta": 1e-5, "privacy.clip": 0.5, "training.stack": 1,
}  # fmt: skip
ADAPTIVE = {**PRIVATE, "privacy.clip_quantile": 0.5}
POISSON = {**PRIVATE, "rounds.selector": "poisson", "rounds.cohort": 2}


def test_nothing_of_a_single_node_is_written_down(execute):
    run = execute(PRIVATE, engine="inline")
    everything = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    assert b"0.123456" not in everything and b"train_loss" not in everything
    assert all("norm" not in event and "examples" not in event for event in run.events_of("reported"))
    assert not (run.folder / NODES).exists()


def test_a_longer_change_is_refused_without_a_number(execute, monkeypatch):
    monkeypatch.setattr(client.answer, "clipped", lambda change, clip: {k: v * 0 + 1.0 for k, v in change.items()})
    with pytest.raises(RunFailed, match=r"norm-too-large: the change is longer than privacy\.clip$"):
        execute({**PRIVATE, "rounds.max_attempts": 1}, engine="inline")


@pytest.mark.long
def test_a_round_without_any_node_is_committed_and_paid(execute):
    run = execute({**POISSON, "clients": 6, "rounds.cohort": 1, "rounds.total": 6}, engine="inline")
    with (run.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert any(row["cohort"] == "0" for row in rows), rows
    spent = [float(row["epsilon"]) for row in rows]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(4.0, rel=1e-3) and spent[-1] <= 4.0
    assert "Poisson sampling of clients, rate 0.16" in run.summary["protects"]


@pytest.mark.long
def test_a_draw_whose_nodes_all_fail_alike_counts_as_any_other(execute, monkeypatch):
    """Drawn anew until node 0 is among them, it would take part in every round."""
    monkeypatch.setenv("FAULTS", " ".join(f"raise:{node}:*" for node in range(1, 6)))
    settings = {**POISSON, "model.name": "faulty:model", "rounds.total": 8, "rounds.max_attempts": 9}
    run = execute(settings, engine="inline")
    assert [event["attempt"] for event in run.events_of("committed")] == [1] * 8
    assert {event["reported"] for event in run.events_of("committed")} == {0, 1}


@pytest.mark.long
def test_a_draw_of_which_every_node_fails_is_a_round_without_any_node(execute, monkeypatch):
    """Were nodes drawn anew, those that fail alike would have one that does not in every round."""

    def fails(change, clip):
        raise MemoryError("out of memory")

    monkeypatch.setattr(client.answer, "clipped", fails)
    run = execute({**POISSON, "clients": 6, "rounds.cohort": 3, "rounds.max_attempts": 2}, engine="inline")
    with (run.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert run.committed == 3 and all(row["reported"] == "0" for row in rows)
    assert not run.events_of("abandoned")
    assert float(rows[-1]["epsilon"]) == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(PRIVATE, id="fixed", marks=pytest.mark.long),
        pytest.param(POISSON, id="poisson", marks=pytest.mark.long),
        pytest.param(ADAPTIVE, id="adaptive clip", marks=pytest.mark.long),
    ],
)
def test_the_same_bytes_on_all_engines_and_after_a_stop(execute, undisturbed, settings):
    reference = undisturbed(settings)
    assert execute({**settings, "engine.workers": 1}).sha == reference.sha
    assert execute({**settings, "engine.workers": 2}).sha == reference.sha


@pytest.mark.long  # correlated noise after a kill is slow
def test_killed_in_the_middle_of_a_round_it_resumes_to_the_same_noise(in_the_middle, execute, undisturbed):
    settings = {**PRIVATE, "model.name": "faulty:model", "rounds.cohort": 0}
    killed = in_the_middle(settings, "hang:3:2")
    killed.signal(signal.SIGKILL)
    run, reference = execute(settings, out=killed.run.folder), undisturbed(settings)
    assert run.sha == reference.sha and run.summary["epsilon"] == reference.summary["epsilon"]


def test_a_resumed_run_keeps_its_noise_and_its_account(execute):
    run = execute({**PRIVATE, "rounds.total": 3}, engine="inline")
    noise = run.summary["noise_multiplier"]
    with pytest.raises(SettingError, match="a run that has begun keeps its noise"):
        execute({**PRIVATE, "rounds.total": 4}, engine="inline", out=run.folder)
    assert run.summary["noise_multiplier"] == noise and run.committed == 3


def test_secure_noise_is_never_the_same(execute):
    secure = {**PRIVATE, "privacy.noise": "secure", "rounds.total": 1, "rounds.keep_every": 1}
    first, second = (execute(secure, engine="inline") for _ in range(2))
    assert first.sha != second.sha
    assert first.summary["noise"] == "secure" and not first.summary.get("noise_notice")
    assert (first.folder / "models" / "round-000001.safetensors").exists()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"compression.codec": "drop"}, "dropping to 0.1 would cost 3.16 times the noise"),
        ({"compression.codec": "quantize:4"}, "no proof bounds what it does"),
        ({"compression.send": "weights"}, "clip and send their change"),
        ({"strategy.weighting": "examples"}, "use 'uniform'"),
        ({"strategy.name": "median"}, "reads each report"),
        ({"strategy.steps": '{"clip": {"norm": 1.0}}'}, "may lengthen"),
        ({"rounds.selector": "power-of-choice"}, "go by what clients report"),
        ({"rounds.store_every": 2}, "released twice"),
        ({"evaluation.where": "nodes"}, "has no noise"),
        ({"evaluation.nodes": 2}, "has no noise"),
        ({"secure.sums": "unmasked"}, "use 'off'"),
        ({"privacy.delta": 0.0}, "Gaussian noise needs one"),
        ({"privacy.noise_multiplier": 0.5}, "3 rounds cost epsilon"),
        (
            {"model.name": "dp-forest", "strategy.name": "forest_union", "data.dataset": "diabetes"},
            "changes are clipped",
        ),
        ({"model.name": "odd_nodes:counting"}, "'batches' holds whole numbers"),
        ({"stop.patience": 2, "stop.metric": "train_loss"}, "not measured"),
    ],
)
def test_what_no_account_covers_is_refused_before_round_1(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**PRIVATE, **settings}, engine="inline")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rounds.over_selection": 1.5, "devices.name": "phones"}, "every client must be ready|use 1"),
        ({"devices.name": "phones"}, "every client must be ready"),
        ({"secure.sums": "unmasked"}, "use 'uniform'"),
    ],
)
def test_poisson_sampling_is_refused_where_it_would_not_be_one(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**POISSON, **settings}, engine="inline")


STUDY = {**PRIVATE, "privacy.population": 1000, "privacy.population_cohort": 1000}


def test_a_population_is_never_said_without_what_is_left_for_these_nodes(execute):
    run = execute(STUDY, engine="inline")
    as_if = r"as if of 1,000 clients, 1,000 a round: epsilon 4\.00, delta 1e-05; .* these 6 clients: epsilon \d{3,}"
    assert re.search(as_if, run.summary["protects"])
    assert run.summary["epsilon"] > 100 and run.summary["as_if"]["epsilon"] == pytest.approx(4.0, rel=1e-4)
    columns = {metric["name"]: metric for metric in run.summary["metrics"]["reported"]}
    assert "as if of 1,000 clients, 1,000 a round; for these 6 clients: " in columns["epsilon_as_if"]["note"]
    assert columns["epsilon"]["note"].startswith("for these 6 clients") and not columns["epsilon"]["high"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"privacy.population": 5}, "these 6 clients are to be some of the population"),
        ({"privacy.population_cohort": 1001}, "a round has no more clients than there are"),
        ({"clients": 9, "rounds.cohort": 3, "privacy.separation": 2}, "cannot wait as those of a population"),
        ({"clients": 9, "rounds.cohort": 3, "privacy.separation": 2, "privacy.population": 0,
          "privacy.population_cohort": 0, "privacy.clip_quantile": 0.5}, "of the same clipping norm alone"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_be_one_is_refused_before_round_1(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**STUDY, **settings}, engine="inline")


def test_the_clipping_norm_of_a_round_is_that_of_noisy_sums_and_resumes(execute, undisturbed, monkeypatch, tmp_path):
    save = RunStore.save

    def dying(store, state, memory, record, **more):
        if record.round_number == 3:
            raise KeyboardInterrupt
        save(store, state, memory, record, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStore, "save", dying)
        execute(ADAPTIVE, engine="inline", out=tmp_path / "run")
    run, reference = execute(ADAPTIVE, engine="inline", out=tmp_path / "run"), undisturbed(ADAPTIVE)
    assert run.sha == reference.sha and run.summary["clip"] == reference.summary["clip"] != 0.5
    with (run.folder / "metrics.csv").open() as file:
        rows = [(float(row["clip"]), float(row["within_clip"])) for row in csv.DictReader(file)]
    for (clip, share), (then, _) in pairwise(rows):
        assert then == pytest.approx(clip * math.exp(-0.2 * (min(max(share, 0.0), 1.0) - 0.5)), rel=1e-4)


@pytest.mark.parametrize("said", [0.25, 7.0, np.nan, 0.0])
def test_a_node_that_says_something_else_of_its_norm_is_refused(execute, monkeypatch, said):
    monkeypatch.setattr(client.answer, "within", lambda change, clip: np.array([said], np.float32))
    with pytest.raises(RunFailed, match=r"wrong-values|not-finite"):
        execute({**ADAPTIVE, "rounds.max_attempts": 1}, engine="inline")
