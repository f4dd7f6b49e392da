"""Training by directional derivatives: the central two-point walk bit for bit, catching up, masks, false reports."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedlearn
from client.learners import LEARNERS
from client.learners.learner import LocalTask
from fedlearn.algorithms.scalars.scalar_history import BOUND
from fedlearn.config import config_from
from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import layout_of
from fedlearn.data import from_arrays
from fedlearn.data.partitioning import partition_table
from fedlearn.models import load_model, planned_for
from fedlearn.models.presets import with_presets
from tests.oracles import images

SIZES, LR, K, ROUNDS, SEED, STEP = (6, 10, 24), 0.2, 3, 4, 3, 1e-3
OPTIONS = {"directions": K}
FIXED = {"training.lr_schedule": "constant", "training.options": OPTIONS}


def examples():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(sum(SIZES), 5)).astype("float32"), rng.integers(0, 3, sum(SIZES))
    X[np.arange(len(y)), y] += 2
    return X, y


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 3))


def data():
    X, y = examples()
    groups = np.repeat(np.arange(3), SIZES)
    return from_arrays(X, y, X, y, mean=0, std=1, groups=groups, groups_test=np.zeros(len(y), int))


def ran(*, rounds=ROUNDS, settings=None, model=None, engine="inline", **further):
    return fedlearn.run(
        clients=3, data=data(), model=model or network(), strategy="decomfl", rounds=rounds, partition="natural",
        batch_size=100, lr=LR, seed=SEED, engine=engine, progress=False, settings={**FIXED, **(settings or {})},
        **{"cohort": 0, **further},
    )  # fmt: skip


def central(model, *, rounds=ROUNDS):
    """Return the scalars and the weights of a walk in one place, with the weights of examples of the federation."""
    (X, y), model = map(torch.from_numpy, examples()), deepcopy(model).eval()
    table = partition_table(data(), DataSettings(partition="natural"), num_partitions=3, seed=SEED)
    clients = [torch.tensor(table.indices(client)) for client in range(3)]
    weights = {name: each.detach().numpy().copy() for name, each in model.named_parameters()}
    scalars = []

    def loss(arrays, rows):
        model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        with torch.no_grad():
            return functional.cross_entropy(model(X[rows]), y[rows]).item()

    for number in range(1, rounds + 1):
        along, means = [], []
        for index in range(K):
            rng = rng_for(SEED, purpose="direction", round_number=number, node=index)
            z = {name: rng.standard_normal(each.size, np.float32).reshape(each.shape) for name, each in weights.items()}
            total = 0
            for rows in clients:
                up, down = (
                    loss({n: w + np.float32(side) * z[n] for n, w in weights.items()}, rows) for side in (STEP, -STEP)
                )
                total += len(rows) * round((up - down) / (2 * float(np.float32(STEP))) / 1024 * 2**30)
            means.append(np.float32(total / (sum(SIZES) * 2**30) * 1024))
            along.append(z)
        for mean, z in zip(means, along, strict=True):
            for name in weights:
                weights[name] -= np.float32(LR / K * float(mean)) * z[name]
        scalars += means
    return np.array(scalars), weights


@pytest.fixture(scope="module")
def plain():
    return ran()


def test_a_run_is_the_central_walk_bit_for_bit(plain):
    scalars, weights = central(network())
    assert plain.state["scalars"].tobytes() == scalars.tobytes()
    found = plain.model().state_dict()
    assert {name: each.numpy().tobytes() for name, each in found.items()} == {
        name: each.tobytes() for name, each in weights.items()
    }
    assert plain.history["loss"].iloc[-1] < plain.history["loss"].iloc[0]


def test_masks_and_a_resume_change_no_byte(plain):
    assert ran(settings={"secure.sums": "masked", "secure.dropouts": 0.0}).sha256 == plain.sha256
    first = ran(rounds=2)
    resumed = fedlearn.run(resume=first, rounds=ROUNDS, progress=False)
    assert resumed.sha256 == plain.sha256


@pytest.mark.long
def test_workers_change_no_byte(plain):
    assert ran(engine="embedded", workers=2).sha256 == plain.sha256


def test_bytes_do_not_depend_on_the_size_of_the_module(plain):
    wide = ran(model=nn.Sequential(nn.Linear(5, 800), nn.Tanh(), nn.Linear(800, 3)))
    for name in ("bytes_up", "bytes_down"):
        assert wide.summary[name] == plain.summary[name]
    assert plain.summary["bytes_up"] / (3 * ROUNDS) < 8 * (K + 2) + 700


def test_frozen_weights_have_no_part_in_a_direction():
    model = network()
    model[0].requires_grad_(False)
    found = ran(model=model, rounds=2).model().state_dict()
    assert torch.equal(found["0.weight"], model[0].weight)
    assert not torch.equal(found["3.weight"], model[3].weight)


class Case:
    """A module and its learner, in a process that has seen no round."""

    def __init__(self, **settings):
        flat = {"strategy.name": "decomfl", "model.name": "cnn", "training.options.directions": K, "seed": SEED}
        self.config = config_from(with_presets({**flat, "rounds.total": 200, **settings}))
        self.data = images.dataset()
        self.model = planned_for(load_model("cnn", self.data.spec), self.config)
        self.learner = LEARNERS.load("two-point").from_settings(self.model, self.config)
        self.state = self.model.initial_state(seed=1)

    def fit(self, state, *, number=1, node=0):
        rows = np.arange(6 * node, 6 * node + 6)
        return self.learner.fit(state, LocalTask(self.data.train, rows, SEED, number, node, {}))

    def after(self, state, fit):
        sums = {name: np.concatenate([state[name], array]) for name, array in fit.arrays.items()}
        return self.model.condensed({**state, **sums})


def test_a_client_that_was_away_catches_up_from_the_history():
    here, state = Case(), Case().state
    for number in range(1, 4):
        state = here.after(state, here.fit(state, number=number))
    away = Case()
    first = away.fit(away.state)  # it was there at first, and then no more
    fit, late = here.fit(state, number=4, node=1), away.fit(state, number=4, node=1)
    assert late.arrays["sums"].tolist() == fit.arrays["sums"].tolist()
    assert first.arrays["sums"].tolist() != fit.arrays["sums"].tolist()
    assert away.fit(away.state).arrays["sums"].tolist() == first.arrays["sums"].tolist()  # and back again
    assert Case().fit(state, number=4, node=1).arrays["sums"].tolist() == fit.arrays["sums"].tolist()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda sums, cap: np.full_like(sums, 10_000_001 * cap), "too-large"),  # more examples than a client can have
        (lambda sums, cap: np.append(sums[:1] + 1, sums[1:]), "wrong-count"),
        (lambda sums, cap: np.append([0], sums[1:]), "wrong-count"),
        (lambda sums, cap: np.append([cap], [3 * cap] * K), "too-large"),
        (lambda sums, cap: sums[:-1], "wrong-shape"),
        (lambda sums, cap: sums.astype(float), "wrong-dtype"),
    ],
)
def test_a_false_report_is_refused(change, word):
    case = Case()
    arrays = dict(case.fit(case.state).arrays)
    about = {"before": layout_of(case.state), "max_examples": case.config.gate.max_examples}
    case.model.check_sums(arrays, **about)
    with pytest.raises(Refused, match=word):
        case.model.check_sums({**arrays, "sums": change(arrays["sums"], case.model.cap)}, **about)


@pytest.mark.parametrize(
    ("scalars", "word"),
    [
        (np.zeros(K + 1, np.float32), "wrong-shape"),
        (np.zeros(201 * K, np.float32), "wrong-shape"),  # more rounds than the run has
        (np.full(K, np.nan, np.float32), "too-large"),
        (np.full(K, 2 * BOUND, np.float32), "too-large"),
        (np.zeros(K), "wrong-dtype"),
    ],
)
def test_a_false_history_is_refused(scalars, word):
    case = Case()
    with pytest.raises(Refused, match=word):
        case.fit({**case.state, "scalars": scalars})
    with pytest.raises(Refused, match="wrong-names"):
        case.fit({"scalars": np.zeros(K, np.float32)})


def test_a_loss_that_is_not_finite_is_no_report(monkeypatch):
    case = Case()
    monkeypatch.setattr(type(case.model.objective), "loss", lambda self, outputs, targets: torch.tensor(np.nan))
    with pytest.raises(ValueError, match="not finite"):
        case.fit(case.state)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.momentum", 0.9), ("training.local_epochs", 2), ("training.optimizer", "adam"),
        ("training.weight_decay", 0.1), ("training.clip_norm", 1.0), ("training.personal", "last"),
        ("training.options.directions", 0), ("evaluation.nodes", 3),
    ],
)  # fmt: skip
def test_settings_without_a_meaning_are_refused(setting, value):
    with pytest.raises(SettingError, match=setting):
        Case(**{setting: value})
