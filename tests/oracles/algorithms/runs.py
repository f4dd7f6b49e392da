"""Runs of all algorithms on the small federation, and what each must come to."""

from __future__ import annotations

import json
import shutil
from unittest import mock

import numpy as np
import torch

import fedlearn
from fedlearn.plugins.tables import ALGORITHMS
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
RATIOS = {"strategy.options.ratios": [1.0, 0.5, 0.25]}
SLICED = {"heterofl", "fedrolex", "fjord"}  # a client has no whole state that it could measure

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
    ("heterofl", RATIOS, lambda f: common.sliced(f, (1.0, 0.5, 0.25))),
    ("heterofl", {**RATIOS, **MOMENTUM, **PART}, lambda f: common.sliced(f, (1.0, 0.5, 0.25))),
    ("fedrolex", {**RATIOS, **PART}, lambda f: common.sliced(f, (1.0, 0.5, 0.25), rolls=True)),
    ("fjord", {**RATIOS, **MOMENTUM}, lambda f: common.sliced(f, (1.0, 0.5, 0.25), seed=3)),
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


NAMES = (*sorted(BY_THEMSELVES), *ALGORITHMS)


def settings_of(name, further=()):
    net = net_of(name)
    measured = {"evaluation.nodes": 0} if name in SLICED else {}
    chosen = {"strategy.name": name, "model.name": f"{net.__module__}:{net.__name__}"}
    return {**SETTINGS, **chosen, **dict(further), **measured}


def made(folder, name, further=()):
    return fedlearn.run(settings=settings_of(name, further), progress=False, out=folder)


def net_of(name):
    return Normed if name == "fedbn" else Net


def start_of(name, folder):
    """Return the state of an algorithm's module before round 1, as parameters."""
    model = {"model.name": settings_of(name)["model.name"], "rounds.total": 1, "training.lr": 1e-30}
    state = made(folder, "fedavg", model).state
    parameters = {each: torch.from_numpy(np.array(array)) for each, array in state.items() if "norm" not in each}
    return {**(Normed().state_dict() if net_of(name) is Normed else {}), **parameters}


def who_reported(run):
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    reported = [(e["round"], e["partition"]) for e in events if e["event"] == "reported"]
    return [sorted(k for r, k in reported if r == number) for number in range(1, run.summary["rounds"] + 1)]


def compare(name, further, oracle, start, folder):
    """Fail unless a run has the shared parameters, and nodes the own models, that an oracle computes."""
    run = made(folder, name, further)
    momentum, alike = further.get("training.momentum", 0.0), "data.options.alike" in further
    f = Federation(start, who_reported(run), momentum=momentum, alike=alike)
    exact = oracle(f)
    shared, own = exact if isinstance(exact, tuple) else (exact, [])
    for parameter, values in shared.items():
        np.testing.assert_allclose(run.state[parameter], values.numpy(), rtol=1e-7, atol=1e-7, err_msg=parameter)
    if own:
        losses = [_loss_of(net_of(name), model, *f.nodes[k]) for k, model in enumerate(own)]
        found = run.nodes[run.nodes["round"] == ROUNDS].sort_values("partition")["loss"]
        np.testing.assert_allclose(found, losses, rtol=0, atol=1e-6)  # nodes.csv has six digits


def _loss_of(net, model, X, y):
    if net is Net:
        return loss(model, X, y).item()
    module = net()
    module.load_state_dict(model)
    return torch.nn.functional.cross_entropy(module.eval()(X), y).item()


BYTES = {"rounds.total": 4, "rounds.cohort": 3, "engine.workers": 2}


def inline_and_killed(folder, name):
    """Return a run of the inline engine, and one resumed from what a kill after round 2 leaves of it."""
    commit, copy = committing.commit, folder / "killed"

    def copied(run, step, collected, at, *rest):
        commit(run, step, collected, at, *rest)
        if at.round_number == 2:
            shutil.copytree(folder / "inline", copy)

    with mock.patch.object(committing, "commit", copied):
        inline = made(folder / "inline", name, BYTES)
    return inline, fedlearn.run(resume=copy, progress=False) if copy.exists() else inline
