"""The exact audit of DP-SGD: two data sets of which one has a record more, with the same coins and the same answers.

A fit is recorded: each sum, the noise that it gets, and the rate at which coins were asked for. The fit on the neighbor
gets the recorded answers, and the same coins for all common records. Then the sums of a step may differ by the record
alone, and only where its own coin took it. Its loss is that of the booked mechanism if

1. the L2 norm of the difference is at most the standard deviation of the noise / the booked noise multiplier,
2. a coin was asked for each record, at the booked rate, and as many sums as steps are booked,
3. all that is published is the same to the last bit.

What the audit reads of 1. is a share of the claim; if 2. or 3. fail, it is infinite.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from client.learners.dp_sgd import DPSGD
from client.learners.learner import LocalTask
from client.learners.poisson_batches import Draws
from fedlearn.auditing.recording import NotAlike
from fedlearn.config import config_from
from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models import load_model
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.privacy.mechanisms.interception import intercepted_by
from fedlearn.privacy.noise import seeded_noise

SPEC = DataSpec("rows", (6,), "float32", classes=3)
DECLARED = 40  # records
SETTINGS = {
    "model.name": "mlp", "training.learner": "dp-sgd", "privacy.protects": "records", "privacy.delta": 1e-5,
    "privacy.epsilon": 100.0, "privacy.noise_multiplier": 1.0, "privacy.records": DECLARED, "privacy.noise": "secure",
    "privacy.clip": 0.5, "training.batch_size": 8, "training.local_epochs": 2, "rounds.total": 2,
}  # fmt: skip
ODD = (0.0, 1e3, 1e30, np.nan, np.inf, -np.inf)  # what a record may hold
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class NeighborsResult:
    """What the replays of one learner have found.

    Parameters
    ----------
    name : str
        What was replayed.
    pairs : int
        Number of pairs of neighbors.
    largest : float
        Largest change of a sum as a share of what the booked noise allows; infinite where the neighbors differ in
        anything else.
    why : str
        Reason for an infinite one.
    """

    name: str
    pairs: int
    largest: float
    why: str = ""

    @property
    def is_refuted(self) -> bool:
        """Whether the claim is wrong."""
        return self.largest > 1 + TOLERANCE

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.largest:.6g} of the claim in {self.pairs} pairs{f', as {self.why}' * bool(self.why)}"
        )


def learner_of(kind: type[DPSGD], **settings: object) -> DPSGD:
    """Return a learner of a small model; settings replace those of the audit."""
    model = load_model("mlp", SPEC, '{"width": 7}', "")
    assert isinstance(model, TorchModel)
    return kind.from_settings(model, config_from(SETTINGS | settings))


def replayed(name: str, kind: type[DPSGD], *, pairs: int, seed: int = 0) -> NeighborsResult:
    """Return the largest share of the claim over pairs of neighbors; it stops at the first that exceeds it."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    learner, largest, number = learner_of(kind), 0.0, 0
    for number in range(1, pairs + 1):
        share, why = share_of(learner, rng)
        largest = max(largest, share)
        if share > 1 + TOLERANCE:
            return NeighborsResult(name, number, share, why)
    return NeighborsResult(name, number, largest)


def share_of(learner: DPSGD, rng: np.random.Generator) -> tuple[float, str]:
    """Return the share of the claim on a new pair of neighbors, and why it is infinite, if it is."""
    common = _drawn(rng, int(rng.integers(0, 2 * DECLARED)))
    at = int(rng.integers(0, len(common) + 1))
    more = _drawn(rng, 1)
    whole = Examples(np.insert(common.inputs, at, more.inputs[0], axis=0), np.insert(common.targets, at, more.targets))
    coins = _Coins(len(common), at, int(rng.integers(1 << 32)))
    scale = rng.choice([0.1, 1.0, 30.0])
    state = {name: (each * scale).astype(each.dtype) for name, each in learner.model.initial_state(seed=1).items()}
    first = _Run(learner, state, coins, rng)
    try:
        published, again = first.on(whole), _Run(learner, state, coins, rng, replaying=first)
        others = again.on(common)
    except NotAlike as error:
        return math.inf, str(error)
    booked = learner.mechanism()
    if len(first.sums) != len(again.sums) or len(first.sums) != booked.rounds:
        return math.inf, f"{len(first.sums)} and {len(again.sums)} noisy sums, {booked.rounds} are booked"
    if any((published[name] != others[name]).any() for name in others if not np.isnan(published[name]).any()):
        return math.inf, "the answers are the same, and what is published differs"
    if wrong := {rate for rate in (*first.draws.rates, *again.draws.rates) if rate != booked.sampling_rate}:
        return math.inf, f"coins of rate {wrong.pop():g}, booked are {booked.sampling_rate:g}"
    if len(first.draws.rates) != booked.rounds:
        return math.inf, f"{len(first.draws.rates)} batches drawn by coins, {booked.rounds} are booked"
    shares = [0.0]
    for step, (one, other) in enumerate(zip(first.sums, again.sums, strict=True)):
        change = float(np.linalg.norm(one.values - other.values))
        if change and not coins.takes(step, booked.sampling_rate):
            return math.inf, "a record that is not in the batch moves the sum"
        shares.append(change * booked.noise_multiplier / one.deviation)
    return max(shares), ""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum that noise was asked for, the standard deviation of the noise, and the answer."""

    values: NDArray[np.float64]
    deviation: float
    answer: NDArray[np.float64]


class _Coins:
    """The coins of common records, and those of one record more, by step."""

    def __init__(self, common: int, at: int, seed: int) -> None:
        self.common, self.at, self.seed = common, at, seed

    def of(self, step: int, count: int, rate: float) -> NDArray[np.bool_]:
        """Return the coins of a data set of this size."""
        coins = np.random.default_rng([self.seed, step]).random(self.common + 1) < rate
        own, others = coins[-1], coins[:-1]
        return np.insert(others, self.at, own) if count == self.common + 1 else others

    def takes(self, step: int, rate: float) -> bool:
        """Return whether the record more is in the batch of a step."""
        return bool(np.random.default_rng([self.seed, step]).random(self.common + 1)[-1] < rate)


class _Draws:
    """Draws that keep the rates that were asked for."""

    torch_seed = 0

    def __init__(self, coins: _Coins) -> None:
        self.noise = seeded_noise(coins.seed)
        self.rates: list[float] = []
        self._coins = coins

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """See Draws."""
        self.rates.append(rate)
        return self._coins.of(len(self.rates) - 1, count, rate)


class _Run:
    """A fit whose mechanisms are answered here: at random, or as another run was answered."""

    def __init__(
        self, learner: DPSGD, state: State, coins: _Coins, rng: np.random.Generator, *, replaying: _Run | None = None
    ) -> None:
        self.learner, self.state, self.draws, self._rng = learner, state, _Draws(coins), rng
        self.sums: list[_Sum] = []
        self._given = None if replaying is None else replaying.sums

    def on(self, train: Examples) -> State:
        """Return what the fit publishes."""
        task = LocalTask(train, np.arange(len(train)), 1, 1, 0, {})
        draws: Draws = self.draws
        self.learner.__dict__["_draws"] = lambda _: draws
        with intercepted_by(self._answered):
            return {name: each.copy() for name, each in self.learner.fit(self.state, task).arrays.items()}

    def _answered(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = np.asarray(args[0], np.float64)
        if mechanism.__name__ != "gaussian":
            raise NotAlike(f"{mechanism.__name__} was asked, which is not booked")
        deviation = kwargs["clip"] * kwargs["noise_multiplier"]
        if self._given is None:
            answer = values + self._rng.normal(0, deviation, values.shape)
        elif len(self.sums) < len(self._given):
            answer = self._given[len(self.sums)].answer
        else:
            raise NotAlike("a noisy sum more than the neighbor has")
        self.sums.append(_Sum(values.copy(), deviation, answer))
        return answer


def _drawn(rng: np.random.Generator, count: int) -> Examples:
    """Return records, some of which hold what no honest record does."""
    inputs = rng.standard_normal((count, 6)).astype(np.float32)
    odd = rng.random(count) < 0.3
    inputs[odd] = rng.choice(np.array(ODD, np.float32), size=(int(odd.sum()), 1))
    return Examples(inputs, rng.integers(0, 3, count))
