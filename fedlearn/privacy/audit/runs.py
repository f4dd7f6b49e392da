"""The exact auditor of runs that protect nodes: two whole runs, between which one node differs, with the same answers.

The first run is recorded: each call of a mechanism, and its answer. In the second one, of a neighboring federation, all
calls get the recorded answers. So noise is to hide by how much the values of a call differ, and nothing else: whatever
is released of the two runs must be the same to the last bit.

*The loss.* Gaussian noise of deviation d on values that differ by v is a Gaussian mechanism of mu = |v| / d. The
largest mu of any call counts for all rounds, at the claimed rate of sampling, as a node may be in each of them.
Correlated noise, by the matrix C, on differences V of all rounds is one mechanism of mu = |C V| / d. Epsilon at the
claim's delta is compared with the claimed one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from fedlearn.privacy.audit.recording import NotAlike
from fedlearn.privacy.factorization.banded import Banded
from fedlearn.privacy.mechanisms.gaussian_share import share_deviation
from fedlearn.privacy.mechanisms.skellam import share_scale

TOLERANCE = 1e-6  # relative: clipped vectors may be longer by rounding
SHARES: dict[str, Callable[[float, float, int], float]] = {"gaussian_share": share_deviation, "skellam": share_scale}
"""Mechanism whose noise hides in a sum alone -> standard deviation of one share."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One call of a mechanism.

    Parameters
    ----------
    values, answer : ndarray
        What noise was added to, and what came of it; float64.
    deviation : float
        Standard deviation of the noise of this call.
    round_number : int
        Round of the call.
    is_share : bool
        Whether the noise of all calls of the round hides the values together.
    is_skellam : bool
        Whether it is Skellam's, which is accounted so.
    matrix : Banded or None
        Matrix that correlates the noise of the rounds.
    """

    values: NDArray[np.float64]
    answer: NDArray[np.float64]
    deviation: float
    round_number: int
    is_share: bool = False
    is_skellam: bool = False
    matrix: Banded | None = None

    @property
    def noise(self) -> bytes:
        """The noise, up to rounding."""
        return (self.answer - self.values).round(9).tobytes()


@dataclass
class Tape:
    """Records the calls of a mechanism in a run, or answers them with what another run has recorded.

    Parameters
    ----------
    now : callable
        Function that returns the number of the round under way.
    given : sequence of Asked, optional
        Calls of the other run; None: the mechanisms answer.
    """

    now: Callable[[], int]
    given: Sequence[Asked] | None = None
    calls: list[Asked] = field(default_factory=list)

    def __call__(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the answer to one call."""
        name = mechanism.__name__
        answer = mechanism(*args, **kwargs)
        kind = np.asarray(answer).dtype
        if self.given is not None:
            if len(self.calls) >= len(self.given):
                raise NotAlike(f"{name} was asked once more than in the neighbor")
            answer = self.given[len(self.calls)].answer.astype(kind)
        source = args[0] if name == "added" else None  # CorrelatedNoise, whose method it is
        values, deviation = args[0 if source is None else 1], 0.0
        if source is not None:
            deviation = source.deviation
        elif name in SHARES:
            deviation = SHARES[name](kwargs["sensitivity"], kwargs["noise_multiplier"], kwargs["shares"])
        elif name == "gaussian":
            deviation = kwargs["clip"] * kwargs["noise_multiplier"]
        else:
            raise NotAlike(f"{name} was asked, which no account covers")
        matrix = None if source is None else source.factorization
        wide = [np.array(each, np.float64) for each in (values, answer)]
        self.calls.append(Asked(wide[0], wide[1], deviation, self.now(), name in SHARES, name == "skellam", matrix))
        return answer


class Replayed(NamedTuple):
    """One run of a pair: its calls, all that it releases, and what it claims.

    Parameters
    ----------
    calls : sequence of Asked
        All calls, in their order.
    released : object
        Everything released, which can be compared.
    epsilon, delta : float
        Claim of the whole run.
    rounds : int
        Number of committed rounds.
    rate : float
        Claimed rate of Poisson sampling; 1 where none is claimed.
    """

    calls: Sequence[Asked]
    released: object
    epsilon: float
    delta: float
    rounds: int
    rate: float = 1.0


class RunLoss(NamedTuple):
    """Privacy loss of a pair of runs, as a share of the claim, at most 1 if it holds; why it is infinite, if it is."""

    share: float
    why: str = ""

    @property
    def is_refuted(self) -> bool:
        """Whether the claim is wrong."""
        return self.share > 1 + TOLERANCE

    def __str__(self) -> str:
        """Return the share, or the reason."""
        return self.why or f"{self.share:{'.4f' if self.share < 1000 else '.3g'}} of the claim"


def loss_of_runs(first: Replayed, again: Replayed) -> RunLoss:
    """Return the loss of a run against that of a neighbor which got the same answers."""
    if len(first.calls) != len(again.calls):
        return RunLoss(math.inf, f"{len(first.calls)} noisy answers, the neighbor has {len(again.calls)}")
    if not first.calls:
        return RunLoss(math.inf, "no mechanism was asked")
    if first.released != again.released:
        return RunLoss(math.inf, "the noisy answers are the same, and what is released differs")
    if len({call.noise for call in first.calls}) < len(first.calls):
        return RunLoss(math.inf, "noise was used again")
    spent = _epsilon(first, [one.values - other.values for one, other in zip(first.calls, again.calls, strict=True)])
    return RunLoss(spent / first.epsilon)


def _epsilon(run: Replayed, moved: Sequence[NDArray[np.float64]]) -> float:
    """Return epsilon of noise that hides differences, one of each call."""
    matrix = run.calls[0].matrix
    if matrix is not None:
        by_row = matrix.matrix() @ np.stack([each.reshape(-1) for each in moved])
        mu, rounds = float(np.linalg.norm(by_row)) / min(call.deviation for call in run.calls), 1
    else:
        reports = Counter(call.round_number for call in run.calls)
        together = [math.sqrt(reports[call.round_number]) if call.is_share else 1.0 for call in run.calls]
        apart = [float(np.linalg.norm(each)) for each in moved]
        mu = max(far / call.deviation / root for far, call, root in zip(apart, run.calls, together, strict=True))
        rounds = run.rounds
    part = GaussianRounds(1 / mu, rounds, run.rate, is_skellam=run.calls[0].is_skellam) if mu else None
    return epsilon_of([part], delta=run.delta) if part else 0.0
