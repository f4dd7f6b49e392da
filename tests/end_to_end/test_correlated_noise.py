"""Runs of correlated noise: nodes keep their separation, rows are never drawn again, and the account holds.

`test_audited_nodes.py` replays such a run on a neighbor.
"""

from __future__ import annotations

import csv
import math
import signal
import stat
from collections import defaultdict
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest

from fedlearn.auditing.nodes.chosen_model import Chosen
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.state_files import unpack_state
from fedlearn.runs.checkpoint import RunStore
from server.features.privacy import correlated
from server.features.privacy.correlated import INVERSE, MATRIX, ROWS, CorrelatedRows
from tests.end_to_end.conftest import Run

WAITING = {
    "model.name": "fedlearn.auditing.nodes.chosen_model:model",
    "data.dataset": "digits", "clients": 9, "rounds.cohort": 3,
    "rounds.total": 7,
    "privacy.protects": "nodes", "privacy.epsilon": 4.0, "privacy.delta": 1e-5, "privacy.clip": 0.5,
    "privacy.separation": 3, "training.stack": 1,
}  # fmt: skip
ATTACKER = 3  # takes part in rounds 1, 4 and 7


def turns(run):
    """Return the rounds in which each node has reported, in any attempt."""
    found = defaultdict(list)
    for event in run.events_of("reported"):
        found[event["partition"]].append(event["round"])
    return found


def states_in(told):
    """Return round -> the states that any node was told in it, as the model `telling:model` writes them down."""
    found = defaultdict(set)
    for line in told.read_text().splitlines():
        found[int(line.split()[0])].add(line.split()[1])
    return dict(found)


def closest(run):
    return min(later - earlier for rounds in turns(run).values() for earlier, later in pairwise(rounds))


def test_nodes_wait_as_many_rounds_as_they_are_to(execute):
    run = execute(WAITING, engine="inline")
    assert closest(run) == 3 and turns(run)[ATTACKER] == [1, 4, 7]


def test_epsilon_by_round_is_that_of_the_rounds_so_far_and_ends_at_the_budget(execute):
    run = execute(WAITING, engine="inline")
    with (run.folder / "metrics.csv").open() as file:
        spent = [float(row["epsilon"]) for row in csv.DictReader(file)]
    assert spent == sorted(spent) and spent[0] < 3 and spent[-1] == pytest.approx(4.0, rel=1e-4) and spent[-1] <= 4.0
    assert (
        "each client waits 3 rounds from one turn to its next, which its own memory enforces" in run.summary["protects"]
    )
    assert (run.summary["separation"], run.summary["bands"]) == (3, 3)


def test_the_node_of_an_abandoned_round_has_taken_part(execute, monkeypatch):
    monkeypatch.setattr(Chosen, "absent", {ATTACKER})
    run = execute({**WAITING, "clients": 12, "rounds.total": 4, "rounds.max_attempts": 5}, engine="inline")
    assert [event["round"] for event in run.events_of("abandoned")] == [2]
    in_round_2 = [node for node, rounds in turns(run).items() if 2 in rounds]
    assert len(in_round_2) == 5, "two reported in vain, and wait like the three whose reports count"
    assert closest(run) >= 3


def test_a_round_without_enough_nodes_that_have_waited_ends_the_run_with_its_reason(execute, monkeypatch):
    monkeypatch.setattr(Chosen, "absent", {ATTACKER})
    no_slack = {**WAITING, "rounds.max_attempts": 9}
    with pytest.raises(
        RunFailed, match=r"it has taken part in round \d: again from round \d on \(privacy.separation\)"
    ):
        execute(no_slack, engine="inline")


@pytest.mark.long
def test_the_same_bytes_on_all_engines(execute, undisturbed):
    reference = undisturbed(WAITING)
    assert execute({**WAITING, "engine.workers": 1}).sha == reference.sha
    assert execute({**WAITING, "engine.workers": 2}).sha == reference.sha


def rows_of(folder):
    (file,) = (folder / "checkpoint").glob("*memory*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return unpack_state(file.read_bytes())


def stopped_after(execute, monkeypatch, rounds, settings):
    """Return a run that has ended when the row after so many rounds was drawn, and was not stored."""
    save = RunStore.save

    def dying(store, state, memory, record, **more):
        if record.round_number > rounds:
            raise KeyboardInterrupt
        save(store, state, memory, record, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStore, "save", dying)
        execute(settings, engine="inline", out=settings["out"])
    return Run(settings["out"])


def test_a_resumed_run_goes_on_with_the_stored_rows(execute, undisturbed, monkeypatch, tmp_path):
    run = stopped_after(execute, monkeypatch, 4, {**WAITING, "out": tmp_path / "run"})
    stored = rows_of(run.folder)[ROWS]
    assert len(stored) == 2 and run.committed == 4
    before, added = [], CorrelatedRows.added

    def asked(rows, exact, noise, round_number):
        before.append(np.stack(rows._kept.rows) if round_number == 5 else None)
        return added(rows, exact, noise, round_number)

    monkeypatch.setattr(CorrelatedRows, "added", asked)
    resumed = execute(WAITING, engine="inline", out=run.folder)
    assert np.array_equal(before[0], stored), "rows of committed rounds are never drawn again"
    assert resumed.sha == undisturbed(WAITING).sha
    assert ROWS not in rows_of(resumed.folder), "after the last round no row is kept"


FEW = {**WAITING, "privacy.bands": 2}


def test_a_run_of_few_bands_keeps_one_row_less_and_resumes(execute, undisturbed, monkeypatch, tmp_path):
    run = stopped_after(execute, monkeypatch, 4, {**FEW, "out": tmp_path / "run"})
    stored = rows_of(run.folder)
    assert len(stored[ROWS]) == 1 and INVERSE in stored and MATRIX not in stored
    resumed = execute(FEW, engine="inline", out=run.folder)
    assert resumed.sha == undisturbed(FEW).sha != undisturbed(WAITING).sha
    assert resumed.summary["bands"] == 2 and resumed.summary["epsilon"] <= 4.0
    assert ROWS not in rows_of(resumed.folder)


def test_a_checkpoint_without_its_rows_is_not_gone_on_with(execute, monkeypatch, tmp_path):
    run = stopped_after(execute, monkeypatch, 4, {**WAITING, "out": tmp_path / "run"})
    monkeypatch.setattr(correlated, "ROWS", "privacy/other")
    with pytest.raises(ValueError, match="0 rows after 4 rounds"):
        execute(WAITING, engine="inline", out=run.folder)


FAULTY = {**WAITING, "model.name": "faulty:model", "clients": 9, "rounds.total": 5, "evaluation.every": 4}


@pytest.mark.long
@pytest.mark.parametrize("when", ["hang:evaluate:*"], ids=["drawn and not stored"])
def test_killed_and_resumed_it_comes_to_the_same_bytes(in_the_middle, execute, undisturbed, when):
    killed = in_the_middle(FAULTY, when)
    killed.signal(signal.SIGKILL)
    assert killed.run.committed == 3
    before = rows_of(killed.run.folder)
    assert len(before[ROWS]) == 2 and (np.abs(before[ROWS]).max(axis=1) > 0).all()
    run, reference = execute(FAULTY, out=killed.run.folder), undisturbed(FAULTY)
    assert run.sha == reference.sha and run.summary["epsilon"] == reference.summary["epsilon"]
    assert ROWS not in rows_of(run.folder), "after the last round no row is kept"


ON_RAY = pytest.param("ray", marks=[pytest.mark.network, pytest.mark.skipif(not find_spec("ray"), reason="no Ray")])


@pytest.mark.long
@pytest.mark.parametrize("engine", ["embedded", ON_RAY])
def test_killed_with_secure_noise_it_tells_no_two_noises_of_one_round(
    in_the_middle, execute, tmp_path, monkeypatch, place, engine
):
    """Round 4 is drawn twice, as the first row was never stored: nodes are told the sum of the second one alone."""
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    secure = {**FAULTY, "model.name": "telling:model", "privacy.noise": "secure", "engine.name": engine}
    killed = in_the_middle(secure, "hang:evaluate:*", env={"TMPDIR": str(place)})
    killed.signal(signal.SIGKILL)
    assert killed.run.committed == 3
    run = execute({**secure, "engine.name": "embedded"}, out=killed.run.folder)
    told = states_in(tmp_path / "told")
    assert sorted(told) == [1, 2, 3, 4, 5] and all(len(states) == 1 for states in told.values())
    assert run.summary["noise"] == "secure"


@pytest.mark.long
@pytest.mark.network
@pytest.mark.skipif(not find_spec("ray"), reason="no Ray")
def test_ray_makes_the_same_model(command, undisturbed, place):
    started = command({**WAITING, "engine.name": "ray"}, env={"TMPDIR": str(place)})
    _, error = started.process.communicate(timeout=400)
    assert started.process.returncode == 0, error
    assert started.run.sha == undisturbed(WAITING).sha


def test_more_rounds_than_the_noise_was_correlated_for_are_refused(execute):
    run = execute({**WAITING, "rounds.total": 3}, engine="inline")
    with pytest.raises(SettingError, match="was correlated for 3 rounds: take no more"):
        execute({**WAITING, "rounds.total": 4}, engine="inline", out=run.folder)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"privacy.separation": 1, "privacy.bands": 2}, "without privacy.separation no noise is correlated"),
        ({"privacy.separation": 5}, "3 of 9 clients a round: while others wait no cohort is left: use at most 3"),
        ({"rounds.selector": "poisson"}, "clients are drawn whether or not they have just taken part"),
        ({"privacy.noise_multiplier": 0.5}, "7 rounds cost epsilon"),
    ],
)
def test_what_no_separation_covers_is_refused_before_round_1(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**WAITING, **settings}, engine="inline")


def test_secure_rows_are_never_the_same(execute):
    secure = {**WAITING, "privacy.noise": "secure", "rounds.total": 3}
    first, second = (execute(secure, engine="inline") for _ in range(2))
    assert first.sha != second.sha and first.summary["noise"] == "secure"
    assert math.isclose(first.summary["epsilon"], second.summary["epsilon"])
