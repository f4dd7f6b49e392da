"""Analyses as federations: one answer by every way, and no other."""

from __future__ import annotations

import json
import signal
from importlib.util import find_spec

import numpy as np
import pytest

import fedlearn
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.data import load_dataset
from fedlearn.statistics import fit
from tests.end_to_end.conftest import PATIENCE, end_of, resumed
from tests.oracles.studies import BOUNDS, WORDS, patients

FEW = {"clients": 6, "rounds.cohort": 0, "rounds.total": 40}
COX = {**FEW, "model.name": "cox", "model.options": {"event": "died"}}
LOGIT = {**FEW, "model.name": "glm"}


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """Return a function that declares the patients' table in a file, with one of its columns as target."""
    folder = tmp_path_factory.mktemp("patients")
    patients(400, seed=2, missing=0.03).to_csv(folder / "patients.csv", index=False)

    def declared(target, columns=("age", "dose", "sex", "ward")):
        file = folder / f"{target}.toml"
        of_target = f"classes = {WORDS[target]}" if target in WORDS else f"target_bounds = {list(BOUNDS[target])}"
        bounds = "\n".join(f"{name} = {list(BOUNDS[name])}" for name in columns if name in BOUNDS)
        words = "\n".join(f"{name} = {WORDS[name]}" for name in columns if name in WORDS)
        text = f'data = "patients.csv"\ntarget = "{target}"\n{of_target}\n[bounds]\n{bounds}\n[categories]\n{words}\n'
        file.write_text(text)
        return str(file)

    return declared


@pytest.fixture
def survival(declared):
    return {**COX, "data.dataset": declared("weeks", ("age", "dose", "sex", "ward", "died"))}


def of_one_table(settings):
    name = settings["model.name"]
    return fit(name, load_dataset(settings["data.dataset"], ""), **settings.get("model.options", {}))


def in_errors(found, expected):
    """Return how far coefficients and their errors are from those of one table, in standard errors."""
    mine, whole = found.table("coefficients"), expected.table("coefficients")
    differences = mine[["coef", "std err"]] - whole[["coef", "std err"]]
    return float(np.abs(differences.to_numpy() / whole[["std err"]].to_numpy()).max())


def test_masked_sums_give_the_answer_of_one_table_and_its_page(execute, survival):
    run = fedlearn.load(execute({**survival, "secure.sums": "masked"}, engine="inline").folder)
    expected = of_one_table(survival)
    assert in_errors(run.model(), expected) < 1e-6
    assert run.model().facts["records"] == expected.facts["records"] > 350  # no row is held out for testing
    stored = json.loads((run.folder / "analysis.json").read_text())
    assert stored["facts"] == run.model().facts and run.summary["rounds"] < 10
    assert "the fit has converged" in run.summary["stopped_early"]
    clear = execute(survival, engine="inline")
    assert clear.sha == run.sha256


@pytest.mark.long
@pytest.mark.parametrize("sums", ["unmasked", "off"])
def test_the_bytes_are_those_of_workers_without_masks(execute, survival, sums):
    found = execute({**survival, "secure.sums": sums}).sha
    assert found == execute({**survival, "secure.sums": "masked"}, engine="inline").sha


@pytest.mark.long
@pytest.mark.network
@pytest.mark.skipif(not find_spec("ray"), reason="no Ray")
def test_the_bytes_are_those_of_ray(command, execute, survival):
    on_ray = command({**survival, "model.options": json.dumps(survival["model.options"]), "engine.name": "ray"})
    assert on_ray.process.wait(PATIENCE) == 0
    assert on_ray.run.sha == execute(survival, engine="inline").sha


def test_a_paused_fit_goes_on_to_the_same_bytes(execute, survival):
    paused = execute({**survival, "stop.after": 2}, engine="inline")
    assert paused.committed == 2 and not (paused.folder / "analysis.json").exists()
    assert end_of("simulate", "--quiet", "--resume", paused.folder, "--set", "stop.after=0") == 0
    assert paused.sha == execute(survival, engine="inline").sha
    rounds = paused.committed
    assert end_of("simulate", "--quiet", "--resume", paused.folder) == 0
    assert paused.committed == rounds


@pytest.mark.long
@pytest.mark.parametrize(("model", "engine"), [("COX", "embedded"), ("ANALYSIS", "inline")])
def test_a_masked_fit_that_is_killed_in_round_3_goes_on_to_the_bytes_without_masks(
    in_the_middle, execute, survival, declared, model, engine
):
    asked = survival if model == "COX" else {**LOGIT, "data.dataset": declared("sick")}
    clear = {**asked, "model.name": f"faulty_analysis:{model}"}
    options = {"model.options": json.dumps(asked.get("model.options", {}))}
    killed = in_the_middle({**clear, **options, "secure.sums": "masked", "engine.name": engine}, "hang:3:3")
    killed.signal(signal.SIGKILL, group=True)
    assert killed.run.committed == 2
    assert resumed(killed.run).sha == execute(clear, engine="inline").sha
    assert killed.run.committed > 3


def test_a_node_that_fails_in_a_later_round_ends_the_fit_with_one_line(execute, declared, monkeypatch):
    monkeypatch.setenv("FAULTS", "raise:3:3")
    faulty = {**LOGIT, "model.name": "faulty_analysis:ANALYSIS", "data.dataset": declared("sick"), "rounds.quorum": 0.5}
    with pytest.raises(RunFailed, match="round 3 has sums of 5 clients, round 1 of 6") as failed:
        execute(faulty, engine="inline")
    assert "\n" not in str(failed.value)


def test_a_separated_outcome_ends_the_command_with_one_line(tmp_path, capsys):
    frame = patients(200).assign(sick=lambda rows: np.where(rows.age > 50, "yes", "no"))
    frame.to_csv(tmp_path / "patients.csv", index=False)
    text = 'data = "patients.csv"\ntarget = "sick"\nclasses = ["no", "yes"]\n[bounds]\nage = [20, 90]\ndose = [0, 5]\n'
    (tmp_path / "patients.toml").write_text(text)
    given = ("--clients", 4, "--model", "glm", "--dataset", tmp_path / "patients.toml", "--engine", "inline")
    assert end_of("simulate", "--quiet", *given, "--out", tmp_path / "run") == 1
    assert "'age' separates the outcome" in capsys.readouterr().err
    with pytest.raises(UsageError, match="separates the outcome"):
        fedlearn.load(tmp_path / "run").model()


def test_too_few_rounds_end_the_run_with_one_line(execute, survival):
    with pytest.raises(RunFailed, match=r"rounds\.total = 2 rounds were too few"):
        execute({**survival, "rounds.total": 2}, engine="inline")


@pytest.mark.parametrize(("model", "target"), [("describe", "score"), ("kaplan-meier", "weeks")])
def test_an_analysis_in_one_round_tells_what_one_table_tells(execute, declared, model, target):
    options = {"describe": {"by": "ward"}, "kaplan-meier": {"event": "died", "by": "sex"}}[model]
    columns = ("age", "dose", "sex", "ward", "died")
    settings = {**FEW, "model.name": model, "model.options": options, "data.dataset": declared(target, columns)}
    found = fedlearn.load(execute(settings, engine="inline").folder).model()
    expected = of_one_table(settings)
    assert [each.texts() for each in found.tables] == [each.texts() for each in expected.tables]
    assert found.curves == expected.curves
