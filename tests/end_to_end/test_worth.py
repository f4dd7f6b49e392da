"""What each client is worth, by the models of coalitions that are rebuilt from stored changes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedlearn
from fedlearn.commands.valuing import valued
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.state import Entries
from fedlearn.core.state_files import unpack_state
from fedlearn.report.page.analysis_section import worth
from fedlearn.report.stored import read_run
from fedlearn.runs.stored_changes import read_contributions, write_contributions
from server.features.contributions.rebuilt import Rebuilt
from strategies.collected import Collected

from .conftest import config_of, end_of, some_slow

KEEPS = {"model.name": "quadratics:model", "clients": 5, "rounds.cohort": 3, "rounds.total": 4,
         "contributions.keep": True}  # fmt: skip
KINDS = {
    "quadratics": KEEPS,
    "embedded": {**KEEPS, "model.name": "linear", "training.batch_size": 40, "engine.name": "embedded"},
    "weights": {**KEEPS, "model.name": "linear", "training.batch_size": 40, "compression.send": "weights"},
    "a server's momentum": {**KEEPS, "strategy.name": "fedavgm"},
    "dropped entries": {**KEEPS, "model.name": "linear", "training.batch_size": 40, "compression.codec": "drop"},
}


def model_of(run):
    return unpack_state((run.folder / "model.safetensors").read_bytes())


@pytest.mark.parametrize("settings", some_slow(KINDS, ["quadratics"], long=[*KINDS][1:]))
def test_all_clients_together_make_the_model_of_the_run_which_storing_does_not_change(settings, execute):
    given = dict(settings)
    engine = given.pop("engine.name", "inline")
    run = execute(given, engine=engine)
    assert run.sha == execute({**given, "contributions.keep": False}, engine=engine).sha
    rebuilt = Rebuilt(run.folder, config_of(given, engine, run.folder), run.summary["rounds"])
    model = model_of(run)
    for name, array in rebuilt.state_of(frozenset(rebuilt.clients)).items():
        np.testing.assert_allclose(array, model[name], rtol=2e-5, atol=1e-6)
    assert not np.allclose(rebuilt.state_of({rebuilt.clients[0]})[name], model[name])
    for number in range(1, run.summary["rounds"] + 1):
        assert len(read_contributions(run.folder, number)["clients"]) == 3


def test_a_coalition_is_the_mean_of_its_own_changes_round_by_round(tmp_path):
    write_contributions(tmp_path, 0, {"x": np.array([1.0, 1.0])})
    first = np.array([0])
    both = [(1.0, {"x": Entries(np.array([2.0, 0.0]))}), (3.0, {"x": Entries(np.array([6.0]), first)})]
    for number, clients, updates in ((1, [0, 1], both), (2, [1], [(3.0, {"x": Entries(np.array([1.0]), first + 1)})])):
        arrays = Collected({}, updates).to_arrays() | {"clients": np.array(clients)}
        write_contributions(tmp_path, number, arrays)
    rebuilt = Rebuilt(tmp_path, config_of({}, "inline", tmp_path), 2)
    made = {each: rebuilt.state_of(each)["x"].tolist() for each in (frozenset(), frozenset({0}), frozenset({1}))}
    assert [*made.values()] == [[1, 1], [3, 1], [7, 2]]
    assert rebuilt.state_of({0, 1})["x"].tolist() == [1 + (2 + 18) / 4, 2]


def test_the_command_divides_the_gain_and_the_page_shows_it(execute, capsys):
    run = execute(KEEPS, engine="inline")
    assert end_of("worth", run.folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    (table,), facts = found["tables"], found["facts"]
    assert facts["Shapley values"] == "exact"
    gain = facts["gap before round 1"] - facts["gap of all"]  # a distance, of which less is better
    assert sum(row[1] for row in table["rows"]) == pytest.approx(gain, abs=1e-9)
    assert facts["gap of all"] == pytest.approx(run.summary["gap"], abs=1e-6)
    by_call = fedlearn.load(run.folder).worth()
    assert by_call["Shapley value"].tolist() == [row[1] for row in table["rows"]]
    page = worth([read_run("run", run.folder)])
    assert "Contribution of each client" in page and page.count('<rect class="bar') == len(table["rows"]) == 5
    assert end_of("verify", run.folder) == 0
    assert valued(run.folder, rows="clients").facts["rows"] == "clients"
    with pytest.raises(UsageError, match="the run has no validation rows") as refused:
        fedlearn.load(run.folder).worth(rows="validation")
    assert "--" not in str(refused.value)


REFUSED = {
    "secure sums": {"secure.sums": "unmasked", "clients": 20, "rounds.cohort": 12},
    "private clients": {"model.name": "linear", "privacy.protects": "nodes", "privacy.epsilon": 8.0},
    "median": {"strategy.name": "median"},
    "control variates": {"strategy.name": "scaffold:Scaffold"},
}


@pytest.mark.parametrize("settings", some_slow(REFUSED, ["median", "control variates"], long=[*REFUSED][:2]))
def test_changes_that_the_server_must_not_have_or_cannot_use_are_not_stored(settings, execute):
    with pytest.raises(SettingError, match=r"contributions\.keep = True"):
        execute({**KEEPS, **settings}, engine="inline")


def test_a_run_without_stored_changes_says_what_it_needs(execute):
    run = execute({**KEEPS, "contributions.keep": False, "rounds.total": 1}, engine="inline")
    with pytest.raises(UsageError, match=r"the run needs contributions\.keep = true"):
        valued(run.folder)
