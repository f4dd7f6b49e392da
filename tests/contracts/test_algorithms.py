"""The contract of every algorithm: it equals its paper, keeps its laws, and makes the same bytes everywhere."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import fedlearn
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.models.presets import settings_from
from fedlearn.plugins import ALGORITHMS
from server import committing
from tests.oracles.algorithms import common, personal
from tests.oracles.algorithms.federation import Federation, Net, Normed, load, loss

ROUNDS = 4
SETTINGS = {
    "clients": 4, "data.dataset": f"{load.__module__}:load", "data.partition": "natural", "rounds.total": ROUNDS,
    "rounds.cohort": 0, "training.local_epochs": 3, "training.batch_size": 100, "training.lr": 0.2,
    "training.lr_schedule": "constant", "training.momentum": 0.0, "evaluation.nodes": 4, "evaluation.where": "none",
    "evaluation.every": ROUNDS, "gate.max_ratio": 0, "gate.max_share": 1, "engine.name": "inline", "seed": 3,
}  # fmt: skip
MOMENTUM = {"training.momentum": 0.9}
PART = {"rounds.cohort": 2, "rounds.total": 8}

COMMON = [  # algorithm, further settings, oracle
    ("fedavg", {}, common.fedavg),
    ("fedavg", MOMENTUM, common.fedavg),
    ("fedprox", {"training.proximal_mu": 0.3}, lambda f: common.fedprox(f, mu=0.3)),
    ("scaffold", {}, common.scaffold),
    ("scaffold", PART, common.scaffold),
    ("fednova", MOMENTUM, common.fednova),
    ("feddyn", {"training.proximal_mu": 0.3}, lambda f: common.feddyn(f, alpha=0.3)),
    ("feddyn", {"training.proximal_mu": 0.3, **PART}, lambda f: common.feddyn(f, alpha=0.3)),
    ("moon", {}, lambda f: common.moon(f, mu=1.0, temperature=0.5)),
    ("fedexp", {}, lambda f: common.fedexp(f, eps=1e-3)),
    ("fedyogi", {}, lambda f: common.server_optimizer(f, "yogi", lr=0.01)),
    ("fedadagrad", {}, lambda f: common.server_optimizer(f, "adagrad", lr=0.1)),
    ("qfedavg", {}, lambda f: common.qfedavg(f, q=1.0)),
    ("fedsam", {"training.options.rho": 0.1}, lambda f: common.fedsam(f, rho=0.1)),
    ("fedrs", {}, lambda f: common.fedrs(f, alpha=0.5)),
    ("fedlc", {}, lambda f: common.fedlc(f, tau=1.0)),
]
PERSONAL = [
    ("fedper", {}, personal.fedper),
    ("fedper", MOMENTUM, personal.fedper),
    ("lgfedavg", {}, personal.lgfedavg),
    ("fedrep", {"training.options.head_epochs": 2}, lambda f: personal.fedrep(f, head_steps=2)),
    ("fedbabu", {}, lambda f: personal.fedbabu(f, head_steps=1)),
    ("ditto", {}, lambda f: personal.ditto(f, pull=0.1)),
    ("perfedavg", {"data.options.alike": True}, lambda f: personal.perfedavg(f, alpha=0.01)),
    ("fedala", {"training.options.share": 1.0}, lambda f: personal.fedala(f, eta=1.0)),
    ("local", {"strategy.weighting": "examples"}, personal.local),
    ("fedbn", {}, personal.fedbn),
]
BY_THEMSELVES = {"fedavg", "fedyogi", "fedadagrad", "fedexp"}  # strategies alone


def made(folder, name, net, further=()):
    settings = {**SETTINGS, "strategy.name": name, "model.name": f"{net.__module__}:{net.__name__}", **dict(further)}
    return fedlearn.run(settings=settings, progress=False, out=folder)


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """The state of each module before round 1, as parameters."""
    found = {}
    for net in (Net, Normed):
        still = made(tmp_path_factory.mktemp("start") / "run", "fedavg", net, {"rounds.total": 1, "training.lr": 1e-30})
        parameters = {
            name: torch.from_numpy(np.array(each)) for name, each in still.state.items() if "norm" not in name
        }
        found[net] = {**(Normed().state_dict() if net is Normed else {}), **parameters}
    return found


def who_reported(run):
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    reported = [(e["round"], e["partition"]) for e in events if e["event"] == "reported"]
    return [sorted(k for r, k in reported if r == number) for number in range(1, run.summary["rounds"] + 1)]


@pytest.mark.parametrize(("name", "further", "oracle"), COMMON)
def test_it_equals_its_paper(name, further, oracle, starts, tmp_path):
    run = made(tmp_path / "run", name, Net, further)
    exact = oracle(Federation(starts[Net], who_reported(run), momentum=further.get("training.momentum", 0.0)))
    for parameter, values in exact.items():
        np.testing.assert_allclose(run.state[parameter], values.numpy(), rtol=1e-7, atol=1e-7, err_msg=parameter)


@pytest.mark.parametrize(("name", "further", "oracle"), PERSONAL)
def test_its_shared_and_its_own_models_equal_their_paper(name, further, oracle, starts, tmp_path):
    net = Normed if name == "fedbn" else Net
    run = made(tmp_path / "run", name, net, further)
    momentum, alike = further.get("training.momentum", 0.0), "data.options.alike" in further
    f = Federation(starts[net], who_reported(run), momentum=momentum, alike=alike)
    shared, own = oracle(f)
    for parameter, values in shared.items():
        np.testing.assert_allclose(run.state[parameter], values.numpy(), rtol=1e-7, atol=1e-7, err_msg=parameter)
    losses = [_loss_of(net, model, *f.nodes[k]) for k, model in enumerate(own)]
    found = run.nodes[run.nodes["round"] == ROUNDS].sort_values("partition")["loss"]
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-6)  # nodes.csv has six digits


def _loss_of(net, model, X, y):
    if net is Net:
        return loss(model, X, y).item()
    module = net()
    module.load_state_dict(model)
    return torch.nn.functional.cross_entropy(module.eval()(X), y).item()


def test_every_algorithm_has_an_oracle():
    assert {name for name, _, _ in COMMON + PERSONAL} == {*ALGORITHMS, *BY_THEMSELVES} - {"central"}


# --- the same bytes ---------------------------------------------------------------------------------------------------

BYTES = {"rounds.total": 4, "rounds.cohort": 3, "engine.workers": 2}
QUICK = {"scaffold", "feddyn", "fedala"}  # of memories of nodes and strategies, and parcels
ALL = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in (*sorted(BY_THEMSELVES), *ALGORITHMS)
]


@pytest.fixture(scope="module")
def two_workers():
    with WarmEngine() as engine:
        yield engine


@pytest.mark.parametrize("name", ALL)
def test_it_makes_the_same_bytes_inline_by_two_workers_and_after_a_kill(name, two_workers, monkeypatch, tmp_path):
    net = Normed if name == "fedbn" else Net
    commit, copy = committing.commit, tmp_path / "killed"

    def copied(run, step, collected, at, *rest):
        commit(run, step, collected, at, *rest)
        if at.round_number == 2:
            shutil.copytree(tmp_path / "inline", copy)  # as a kill after this round leaves the folder

    with monkeypatch.context() as patch:
        patch.setattr(committing, "commit", copied)
        inline = made(tmp_path / "inline", name, net, BYTES)
    resumed = fedlearn.run(resume=copy, progress=False)
    settings = {**SETTINGS, **BYTES, "strategy.name": name, "model.name": f"{net.__module__}:{net.__name__}"}
    two_workers(settings_from({**settings, "engine.name": "embedded", "out": str(tmp_path / "two")}))
    two = fedlearn.load(tmp_path / "two")
    assert inline.sha256 == resumed.sha256 == two.sha256
    assert inline.nodes.drop(columns="round").equals(two.nodes.drop(columns="round"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(BY_THEMSELVES), *ALGORITHMS])
def test_it_makes_the_same_bytes_on_ray(name, tmp_path):
    net = Normed if name == "fedbn" else Net
    inline, ray = (made(tmp_path / e, name, net, {**BYTES, "engine.name": e}) for e in ("inline", "ray"))
    assert inline.sha256 == ray.sha256
