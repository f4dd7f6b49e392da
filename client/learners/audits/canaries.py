"""The audit of one training of DP-SGD by canaries: records made to be recognized, each included by a coin.

A node trains on handwritten digits and on those canaries whose coin says so, for some rounds, by the learner that every
node has. The attacker is the server: it sees each state, knows all digits and all canaries, and guesses which were
included. From each change of the state it takes off what the digits have added, and regresses the rest on the clipped
gradients of the canaries. It guesses "in" of the canaries that score highest and "out" of those that score lowest;
their share is fixed beforehand.

Where steps are taken with all records (sampling rate 1), nothing hides a canary but the noise, and the audit has the
most power. It is a lower bound at a confidence: a claim that stands is not proved by it.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from client.learners.base import LocalTask
from client.learners.dp_sgd import DPSGD, Rows
from fedlearn.config import RunConfig, config_from
from fedlearn.data.base import Examples
from fedlearn.data.loading import load_dataset
from fedlearn.models import load_model
from fedlearn.models.singly.by_transform import ByTransform
from fedlearn.models.torch_model import TorchModel
from fedlearn.privacy.audit.one_run import OneRunResult, guessed
from fedlearn.words.state import State

SHARE = 0.25  # of the canaries, at either end
RECORDS = 1000  # digits; every canary that is included comes on top


def settings_of(*, epsilon: float, rounds: int, rate: float, seed: int) -> RunConfig:
    """Return the settings of an audited training; a round is one step at rate 1, else a pass."""
    return config_from({
        "model.name": "linear", "data.dataset": "digits", "training.learner": "dp-sgd", "privacy.protects": "records",
        "privacy.epsilon": epsilon, "privacy.delta": 1e-5, "privacy.records": RECORDS, "privacy.noise": "seeded",
        "training.batch_size": max(round(rate * RECORDS), 1), "training.local_epochs": 1, "training.momentum": 0.0,
        "training.lr": 0.2, "training.lr_decay": 0.0, "rounds.total": rounds, "clients": 1, "seed": seed,
    })  # fmt: skip


def audited(
    kind: type[DPSGD] = DPSGD, *, epsilon: float = 2.0, rounds: int = 3, rate: float = 1.0, canaries: int = 500,
    seed: int = 1, confidence: float = 0.999,
) -> OneRunResult:  # fmt: skip
    """Return what the guesses about one training prove.

    Parameters
    ----------
    kind : type of DPSGD
        Learner, as it is or with a mistake (`planted.py`).
    epsilon : float
        Claim of the whole training, at delta 1e-5.
    rounds : int
        Number of states that the attacker sees after the first.
    rate : float
        Sampling rate of each step, in (0, 1].
    canaries : int
        Number of canaries, of which about one half are included.
    seed : int
        Seed of coins, canaries and training.
    confidence : float
        Confidence of the bound, in (0, 1).
    """
    config = settings_of(epsilon=epsilon, rounds=rounds, rate=rate, seed=seed)
    base = _digits()
    rng = np.random.default_rng([seed, 23])
    odd = _canaries(base, canaries, rng)
    included = rng.random(canaries) < 0.5
    both = (base, odd.at(np.flatnonzero(included)))
    train = Examples(*(np.concatenate([getattr(each, name) for each in both]) for name in ("inputs", "targets")))
    model = load_model("linear", load_dataset("digits", "", options="").spec, "", "")
    assert isinstance(model, TorchModel)
    learner = kind.from_settings(model, config)
    states = _states(learner, train, config)
    attacker = DPSGD.from_settings(model, config)
    scores = sum((_scores(attacker, *pair, base, odd) for pair in pairwise(states)), np.zeros(canaries))
    return guessed(scores, included, share=SHARE, claimed=epsilon, delta=config.privacy.delta, confidence=confidence)


@cache
def _digits() -> Examples:
    return load_dataset("digits", "", options="").train.at(slice(0, RECORDS))


def _canaries(base: Examples, count: int, rng: np.random.Generator) -> Examples:
    """Return images of noise, each with a label by chance: no digit looks like one, and no two are alike."""
    inputs = rng.integers(0, 2, (count, *base.inputs.shape[1:])).astype(base.inputs.dtype) * 255
    return Examples(inputs, rng.integers(0, 10, count).astype(base.targets.dtype))


def _states(learner: DPSGD, train: Examples, config: RunConfig) -> list[State]:
    """Return the states that the server sees: of one node, a mean is its report."""
    states = [learner.model.initial_state(seed=config.seed)]
    for round_number in range(1, config.rounds.total + 1):
        task = LocalTask(train, np.arange(len(train)), config.seed, round_number, 0, {})
        states.append({name: each.copy() for name, each in learner.fit(states[-1], task).arrays.items()})
    return states


def _scores(attacker: DPSGD, before: State, after: State, base: Examples, odd: Examples) -> NDArray[np.float64]:
    """Return by how much each canary looks included in one round: least squares under the noise that is claimed."""
    model, plan, clip = attacker.model, attacker.plan, attacker.privacy.clip
    gradients = _gradients(model, before, odd, clip=clip)
    change = np.concatenate([np.ravel(before[name] - after[name]) for name in model.names]).astype(np.float64)
    share = plan.sampling_rate * plan.steps  # of the sum over all records
    places = attacker._sum.places
    rows: list[Rows] = [np.arange(len(base))[start : start + places] for start in range(0, len(base), places)]
    of_digits = attacker._clipped(base, rows, clip=clip)  # at the state before, which is loaded
    rest = change * plan.expected / attacker.learning_rate(1) / share - of_digits - gradients.sum(0) / 2
    noise = plan.mechanism.noise_multiplier * clip * np.sqrt(plan.steps) / share
    square = gradients @ gradients.T
    return np.asarray(np.linalg.solve(square + (2 * noise) ** 2 * np.eye(len(odd)), gradients @ rest))


def _gradients(model: TorchModel, state: State, odd: Examples, *, clip: float) -> NDArray[np.float64]:
    """Return the clipped gradient of each canary at a state, (m, P); the state is loaded afterwards."""
    model.load(state)
    ways = ByTransform(model, len(odd))
    apiece = ways.gradients(model.inputs(odd.inputs), model.targets(odd.targets))
    gradients = torch.cat([each.flatten(1) for each in apiece], dim=1).double().numpy()
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return np.asarray(gradients * np.minimum(1.0, clip / np.where(norms > 0, norms, 1.0)))
