"""The audit of one training of DP-SGD by canaries: records made to be recognized, each included by a coin.

A node trains a linear model on handwritten digits and on those canaries whose coin says so, for some rounds, by the
learner that every node has. A canary holds one large number, at a place where no digit and no other canary has
anything. So its gradient has a direction of its own, and is as long as clipping lets it be: nothing hides it but the
noise. The attacker is the server: it sees each state, knows all canaries, and takes the inner product of each change
with the gradient of each canary. What the scores prove: `fedlearn.auditing.separation`, and by guesses about the
canaries that score highest and lowest, `one_run`; their share is fixed beforehand.

Steps are taken with all records (sampling rate 1): the audit has the most power there. It is a lower bound at a
confidence: a claim that stands is not proved by it. What no change of a state shows - noise that is drawn once for all
steps of a fit, a step that is not booked, a divisor - is for the exact audit (`neighbors.py`).
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from client.learners.dp_sgd import DPSGD
from client.learners.learner import LocalTask
from fedlearn.auditing.separation import CanaryResult
from fedlearn.config import RunConfig, config_from
from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.loading import load_dataset
from fedlearn.models import load_model
from fedlearn.models.torch.torch_model import TorchModel

SHARE = 0.25  # of the canaries, at either end
RECORDS = 1000  # digits; every canary that is included comes on top
PIXELS = 64
SIZE = 8.0  # of a canary's number: 64 / 65 of its gradient's squared norm are its own, the rest the bias has
CLASSES = 10


def settings_of(*, epsilon: float, rounds: int, seed: int) -> RunConfig:
    """Return the settings of an audited training, in which a round is one step."""
    return config_from({
        "model.name": "linear", "data.dataset": "digits", "training.learner": "dp-sgd", "privacy.protects": "records",
        "privacy.epsilon": epsilon, "privacy.delta": 1e-5, "privacy.records": RECORDS, "privacy.noise": "seeded",
        "training.batch_size": RECORDS, "training.local_epochs": 1, "training.momentum": 0.0,
        "training.lr": 0.2, "training.lr_decay": 0.0, "rounds.total": rounds, "clients": 1, "seed": seed,
    })  # fmt: skip


def audited(
    kind: type[DPSGD] = DPSGD, *, epsilon: float = 2.0, rounds: int = 3, canaries: int = 2000, seed: int = 1,
    confidence: float = 0.999,
) -> CanaryResult:  # fmt: skip
    """Return what the canaries of one training prove.

    Parameters
    ----------
    kind : type of DPSGD
        Learner, as it is or with a mistake (`planted.py`).
    epsilon : float
        Claim of the whole training, at delta 1e-5.
    rounds : int
        Number of states that the attacker sees after the first.
    canaries : int
        Number of canaries, of which about one half are included.
    seed : int
        Seed of coins, labels and training.
    confidence : float
        Confidence of the bounds, in (0, 1).
    """
    config = settings_of(epsilon=epsilon, rounds=rounds, seed=seed)
    rng = np.random.default_rng([seed, 23])
    labels, included = rng.integers(0, CLASSES, canaries), rng.random(canaries) < 0.5
    spec = DataSpec("rows", (PIXELS + canaries,), "float32", classes=CLASSES)
    model = load_model("linear", spec, "", "")
    assert isinstance(model, TorchModel)
    states = _states(kind.from_settings(model, config), _train(labels, included), config)
    scores = sum((_scores(*pair, labels) for pair in pairwise(states)), np.zeros(canaries))
    delta = config.privacy.delta
    return CanaryResult.of(scores, included, share=SHARE, claimed=epsilon, delta=delta, confidence=confidence)


@cache
def _digits() -> Examples:
    return load_dataset("digits", "", options="").train.at(slice(0, RECORDS))


def _train(labels: NDArray[np.int64], included: NDArray[np.bool_]) -> Examples:
    """Return the digits, and the canaries that are included."""
    digits, mine = _digits(), np.flatnonzero(included)
    inputs = np.zeros((RECORDS + len(mine), PIXELS + len(labels)), np.float32)
    inputs[:RECORDS, :PIXELS] = digits.inputs[:, ::4, ::4, 0].reshape(RECORDS, PIXELS) / 255  # 8 x 8
    inputs[RECORDS + np.arange(len(mine)), PIXELS + mine] = SIZE
    return Examples(inputs, np.concatenate([digits.targets, labels[mine].astype(digits.targets.dtype)]))


def _states(learner: DPSGD, train: Examples, config: RunConfig) -> list[State]:
    """Return the states that the server sees: of one node, a mean is its report."""
    states = [learner.model.initial_state(seed=config.seed)]
    for round_number in range(1, config.rounds.total + 1):
        task = LocalTask(train, np.arange(len(train)), config.seed, round_number, 0, {})
        states.append({name: each.copy() for name, each in learner.fit(states[-1], task).arrays.items()})
    return states


def _scores(before: State, after: State, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return by how much each canary looks included in one round: its gradient's direction times the change, (m,)."""
    weight, bias = sorted((name for name in before), key=lambda name: -before[name].ndim)
    logits = SIZE * before[weight][:, PIXELS:].T.astype(np.float64) + before[bias]  # (m, classes)
    chances = np.exp(logits - logits.max(1, keepdims=True))
    direction = chances / chances.sum(1, keepdims=True)
    direction[np.arange(len(labels)), labels] -= 1
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    change = (before[weight] - after[weight])[:, PIXELS:].T.astype(np.float64)
    return np.asarray((direction * change).sum(1))
