"""Mistakes that a server may make with the noise of a run that protects nodes: what the exact audit of runs must find.

Beside them: the audit of Poisson sampling, whose coins must be the same for all others whether or not a node is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np

import server.gate
import server.node_privacy
from fedlearn.folding import STATE
from fedlearn.privacy.audit.planting import Planted, swapped
from fedlearn.privacy.audit.runs import RunLoss
from fedlearn.privacy.noise import Noise
from fedlearn.words.cohort import At
from server.draws import Draws
from server.node_privacy import NodePrivacy
from server.round_clip import RoundClip
from server.selectors.base import Partitions
from server.selectors.poisson import Poisson
from strategies.masked_mean import Float64, MaskedSum

Sums = Mapping[str, MaskedSum]
ROUNDS, CLIENTS, COUNT, ONE = 2000, 20, 5, 7  # of the audit of sampling; ONE is the partition that comes and goes
SIGMAS = 6.0  # by which a share of rounds may miss the rate: an honest one does so once in 10^8


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the gate take changes of any norm in the block: what it would have refused, the audit is to find itself."""
    with swapped(server.gate, is_clipped=lambda arrays, clip: True, _longest=lambda config, layout: math.inf):
        yield


def _half(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
    whole = self.plan
    self.plan = whole.keeping(whole.noise_multiplier / 2)
    try:
        return _RELEASED(self, sums, noise, round_number)
    finally:
        self.plan = whole


def _clip_after(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
    total = sums[STATE]
    norm = math.sqrt(sum(float(np.square(each).sum()) for each in total.totals.values()))
    limit = self.plan.clip * total.reports[0]
    short = MaskedSum(
        total.layout, {name: each * min(1.0, limit / (norm or 1.0)) for name, each in total.totals.items()},
        total.weights,
    )  # fmt: skip
    short.reports = total.reports
    return _RELEASED(self, {STATE: short}, noise, round_number)


def _by_who_came(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
    noisy, total = _RELEASED(self, sums, noise, round_number), sums[STATE]
    came = MaskedSum(total.layout, noisy.totals, {name: np.array([total.reports[0]]) for name in noisy.totals})
    came.reports = total.reports
    return came


def _not_the_first(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
    return _RELEASED(self, sums, noise, round_number) if round_number > 1 else sums[STATE]


def _a_round_late(self: NodePrivacy, rounds: int, *, is_seeded: bool) -> dict[str, Any]:
    return _SUMMARY(self, max(rounds - 1, 0), is_seeded=is_seeded)


def _of_round_1(self: Draws, at: At, *, of: str = "the strategy") -> Noise:
    return _NOISE(self, at._replace(round_number=1), of=of)


def _exact_share(self: RoundClip, changes: Float64, counted: MaskedSum, round_number: int) -> Float64:
    vector = _JOINED(self, changes, counted, round_number)
    self.__dict__["exact"] = vector[-1]
    return vector


def _told_exactly(self: RoundClip, noisy: Float64, round_number: int) -> tuple[Float64, float]:
    return _PARTED(self, np.append(noisy[:-1], self.__dict__["exact"]), round_number)


_RELEASED, _SUMMARY, _NOISE = NodePrivacy.released, NodePrivacy.summary, Draws.noise
_JOINED, _PARTED = RoundClip.joined, RoundClip.parted


def _releases(how: Callable[..., MaskedSum]) -> Callable[[], AbstractContextManager[None]]:
    return partial(swapped, NodePrivacy, released=how)


PLANTED = (
    Planted("half of the noise", "central", _releases(_half)),
    Planted("the sum clipped, no change", "central", _releases(_clip_after), beside="unclipped"),
    Planted("divided by who came", "central", _releases(_by_who_came)),
    Planted("no noise in the first round", "central", _releases(_not_the_first)),
    Planted("noise used again", "central", partial(swapped, Draws, noise=_of_round_1)),
    Planted("a round forgotten", "central", partial(swapped, NodePrivacy, summary=_a_round_late)),
    Planted("half of the noise", "sampled", _releases(_half)),
    Planted("whether it was within the norm, without noise", "adaptive", partial(
        swapped, RoundClip, joined=_exact_share, parted=_told_exactly)),
)  # fmt: skip
"""Mistakes, each with the row of the audit that must find it."""


class FixedSize(Poisson):
    """Draws as many nodes as are expected: a mistake, where sampling is accounted as Poisson's."""

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """See Poisson."""
        rng = np.random.default_rng([self.seed, at.round_number])
        chosen: list[int] = sorted(rng.choice(ready, size=count, replace=False).tolist())
        return chosen


def sampled(kind: type[Poisson] = Poisson) -> RunLoss:
    """Return whether nodes are drawn by coins of their own at the claimed rate; infinite loss where they are not."""
    selector, rate = kind(clients=CLIENTS, seed=1), COUNT / CLIENTS
    everybody = np.arange(CLIENTS)
    others = np.delete(everybody, ONE)
    drawn = np.zeros(CLIENTS)
    for number in range(1, ROUNDS + 1):
        with_it = selector.draw(everybody, COUNT, At(number, 1))
        if {*with_it} - {ONE} != {*selector.draw(others, COUNT, At(number, 1))}:
            return RunLoss(math.inf, "who else is drawn depends on whether a node is there")
        drawn[with_it] += 1
    farthest = np.abs(drawn / ROUNDS - rate).max() / math.sqrt(rate * (1 - rate) / ROUNDS)
    if farthest > SIGMAS:
        return RunLoss(math.inf, f"a node is drawn {farthest:.1f} standard deviations off the claimed rate")
    return RunLoss(1.0)


def draws() -> Iterator[tuple[str, bool, RunLoss]]:
    """Yield what the audit says of the sampling, as it is and with a mistake: name, whether it is sound, loss."""
    yield "coins of Poisson sampling", True, sampled()
    yield "sampled: cohorts of a fixed size", False, sampled(FixedSize)
