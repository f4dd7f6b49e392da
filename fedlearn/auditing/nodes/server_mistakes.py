"""Mistakes that a server may make with the noise of a run that protects nodes: what the exact audit of runs must find.

Beside them: the audit of Poisson sampling, whose coins must be the same for all others whether or not a node is there.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import server.committing
import server.gate.gate
from fedlearn.aggregation import STATE
from fedlearn.algorithms.scalars.scalar_history import ScalarHistory
from fedlearn.auditing.bent import BENDS, Bend, Bent
from fedlearn.auditing.drawn import why_not_coins
from fedlearn.auditing.planting import Planted, swapped
from fedlearn.auditing.run_auditor import RunLoss
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.privacy.accounts import GaussianRounds
from fedlearn.privacy.node_costs import NodePlan
from fedlearn.privacy.noise import Noise, seeded_noise
from fedlearn.runs.history import RoundRecord
from fedlearn.runs.log import EventLog
from server.committing import UnderWay
from server.features.privacy.node_privacy import NodePrivacy
from server.features.privacy.round_clip import RoundClip
from server.run import ServerRun
from server.selectors.poisson import Poisson
from server.selectors.selector import Partitions
from server.strategy_rng import Draws
from strategies.base import Step
from strategies.masked_mean import Float64, MaskedSum

Sums = Mapping[str, MaskedSum]
ROUNDS, CLIENTS, COUNT, ONE = 2000, 20, 5, 7  # of the audit of sampling; ONE is the partition that comes and goes
log = logging.getLogger(__name__)


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the gate take changes of any norm in the block: what it would have refused, the audit is to find itself."""
    with (
        swapped(server.gate.gate, is_clipped=lambda arrays, clip: True, _longest=lambda config, layout: math.inf),
        swapped(ScalarHistory, check_sums=lambda self, arrays, **about: None),
    ):
        yield


@contextmanager
def undrawn(nodes: frozenset[int]) -> Iterator[None]:
    """Leave partitions out of each Poisson draw in the block, as if they were not there."""
    drawn = Poisson.draw

    def others(self: Poisson, ready: Partitions, count: int, at: At) -> Sequence[int]:
        return [each for each in drawn(self, ready, count, at) if each not in nodes]

    with swapped(Poisson, draw=others):
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
_WRITE, _DRAW, _STORE = EventLog.write, Poisson.draw, server.committing._store
_PLAN = NodePlan.of


def _only_where_sent(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
    noisy, total = _RELEASED(self, sums, noise, round_number), sums[STATE]
    for name, each in noisy.totals.items():
        exact = total.totals.get(name)
        each *= 0 if exact is None else exact != 0
    return noisy


def _keeping(how: Callable[[float], None]) -> Callable[..., MaskedSum]:
    def released(self: NodePrivacy, sums: Sums, noise: Noise, round_number: int) -> MaskedSum:
        how(math.fsum(float(each.sum()) for each in sums[STATE].totals.values()))
        return _RELEASED(self, sums, noise, round_number)

    return released


@contextmanager
def _in_a_file() -> Iterator[None]:
    """Let each round leave its sum in a further file of the run folder."""
    exact: list[float] = []

    def stored(run: ServerRun, step: Step, record: RoundRecord, under_way: UnderWay) -> None:
        _STORE(run, step, record, under_way)
        (run.store.folder / "sums.npy").write_bytes(np.array(exact[-1:]).tobytes())

    with swapped(NodePrivacy, released=_keeping(exact.append)), swapped(server.committing, _store=stored):
        yield


@contextmanager
def _in_a_column() -> Iterator[None]:
    """Let each round leave its sum in a further column of an event, which listeners receive."""
    exact: list[float] = []

    def written(self: EventLog, event: str, **fields: object) -> None:
        _WRITE(self, event, **fields, **({"total": exact[-1]} if event == "committed" and exact else {}))

    with swapped(NodePrivacy, released=_keeping(exact.append)), swapped(EventLog, write=written):
        yield


def _bent(how: Bend) -> Callable[[], AbstractContextManager[None]]:
    """Return what lets the server's noise make a mistake."""

    def plant() -> AbstractContextManager[None]:
        last: dict[Any, Any] = {}

        def noise(self: Draws, at: At, *, of: str = "the strategy") -> Noise:
            return Bent(_NOISE(self, at, of=of), how, last)  # type: ignore[return-value]  # no other noise is asked for

        return swapped(Draws, noise=noise)

    return plant


def _known(self: Draws, at: At, *, of: str = "the strategy") -> Noise:
    return seeded_noise(at.round_number)


def _at_half_the_rate(cls: type[NodePlan], config: RunConfig) -> NodePlan:
    plan = _PLAN(config)
    return replace(plan, sampling_rate=plan.sampling_rate / 2)


def _half_of_mu(rounds: GaussianRounds) -> float:
    return math.sqrt(rounds.rounds) / rounds.noise_multiplier / 2


def _draws(how: Callable[..., Sequence[int]]) -> Callable[[], AbstractContextManager[None]]:
    return partial(swapped, Poisson, draw=how)


def _one_coin(self: Poisson, ready: Partitions, count: int, at: At) -> Sequence[int]:
    first = _DRAW(self, np.array([0]), count, at)
    return ready.tolist() if first else []


def _for_two_rounds(self: Poisson, ready: Partitions, count: int, at: At) -> Sequence[int]:
    return _DRAW(self, ready, count, At((at.round_number + 1) // 2, 1))


def _a_coin_for_two(self: Poisson, ready: Partitions, count: int, at: At) -> Sequence[int]:
    drawn = {*_DRAW(self, np.arange(self.clients), count, at)}
    return [node for node in ready.tolist() if node // 2 * 2 in drawn]


def _passed_on(self: Poisson, ready: Partitions, count: int, at: At) -> Sequence[int]:
    drawn = {*_DRAW(self, np.arange(self.clients), count, At(1, 1))}
    return [node for node in ready.tolist() if (node - at.round_number) % self.clients in drawn]


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
    *(Planted(name, "central", _bent(how)) for name, how in BENDS.items()),
    Planted("no noise where nothing was sent", "central", _releases(_only_where_sent)),
    Planted("no noise where nobody came", "alone", _releases(_only_where_sent)),
    Planted("the sum in a further file", "central", _in_a_file),
    Planted("the sum in a further column", "central", _in_a_column),
    Planted("the sum in a printed line", "central", _releases(_keeping(print))),
    Planted("the sum in a line of the log", "central", _releases(_keeping(partial(log.info, "total=%f")))),
    Planted("secure noise from a seed", "secure", partial(swapped, Draws, noise=_known)),
    Planted("accounted at half the rate", "sampled", partial(swapped, NodePlan, of=classmethod(_at_half_the_rate))),
    Planted("half of mu in all accounts", "central", partial(
        swapped, GaussianRounds, gaussian_mu=property(_half_of_mu))),
    Planted("one coin for all nodes", "coins", _draws(_one_coin)),
    Planted("a cohort drawn once for two rounds", "coins", _draws(_for_two_rounds)),
    Planted("one coin for two nodes", "coins", _draws(_a_coin_for_two)),
    Planted("coins passed on to the next node", "coins", _draws(_passed_on)),
)  # fmt: skip
"""Mistakes, each with the row of the audit that must find it."""


class FixedSize(Poisson):
    """Draws as many nodes as are expected: a mistake, where sampling is accounted as Poisson's."""

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """See Poisson."""
        rng = np.random.default_rng([self.seed, at.round_number])
        chosen: list[int] = sorted(rng.choice(ready, size=count, replace=False).tolist())
        return chosen


class Seeded(Poisson):
    """Draws secret coins by the run's seed: a mistake, as whoever knows the seed knows who is drawn."""

    def __init__(self, *, clients: int, seed: int, is_secret: bool = False) -> None:
        super().__init__(clients=clients, seed=seed)


def sampled(kind: type[Poisson] = Poisson) -> RunLoss:
    """Return whether nodes are drawn by coins of their own at the claimed rate; infinite loss where they are not.

    The coins are those of one selector with a seed, and of two whose coins are secret, which must differ.
    """
    everybody = np.arange(CLIENTS)
    others = np.delete(everybody, ONE)
    drawn = []
    for selector in (kind(clients=CLIENTS, seed=1), *(kind(clients=CLIENTS, seed=1, is_secret=True) for _ in range(2))):
        for number in range(1, ROUNDS + 1):
            with_it = selector.draw(everybody, COUNT, At(number, 1))
            if {*with_it} - {ONE} != {*selector.draw(others, COUNT, At(number, 1))}:
                return RunLoss(math.inf, "who else is drawn depends on whether a node is there")
            drawn.append(np.isin(everybody, with_it))
    why = why_not_coins(np.array(drawn), COUNT / CLIENTS)
    return RunLoss(math.inf, why) if why else RunLoss(1.0)


def draws() -> Iterator[tuple[str, bool, RunLoss]]:
    """Yield what the audit says of the sampling, as it is and with a mistake: name, whether it is sound, loss."""
    yield "coins of Poisson sampling", True, sampled()
    yield "sampled: cohorts of a fixed size", False, sampled(FixedSize)
    yield "sampled: secret coins from a seed", False, sampled(Seeded)
