"""The exact auditor of runs that protect nodes: two whole runs, between which one node differs, with the same answers.

The first run is recorded: each call of a mechanism, and its answer. In the second one, of a neighboring federation, all
calls get the recorded answers. So noise is to hide by how much the values of a call differ, and nothing else: whatever
is released of the two runs must be the same to the last bit.

*The noise* of all calls has to be independent over entries, nodes and rounds (`drawn`), as far as the numbers show.

*The loss.* Gaussian noise of deviation d on values that differ by v is a Gaussian mechanism of mu = |v| / d. The
largest mu of any call counts for all rounds, at the claimed rate of sampling, as a node may be in each of them.
Correlated noise, by the matrix C, on differences V of all rounds is one mechanism of mu = |C V| / d. Epsilon at the
claim's delta, by an account of the auditor's own (`account`), is compared with the claimed one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.auditor_account import epsilon_at_least
from fedlearn.auditing.drawn import why_not_coins, why_not_noise
from fedlearn.auditing.recording import NotAlike
from fedlearn.privacy.factorization.inverse_banded import Factorization
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
    noise : ndarray
        Noise that the mechanism has drawn, (entries,), also where another answer was given.
    deviation : float
        Standard deviation of the noise of this call.
    round_number : int
        Round of the call.
    is_share : bool
        Whether the noise of all calls of the round hides the values together.
    is_skellam : bool
        Whether it is Skellam's, which is accounted so.
    matrix : Banded, InverseBanded or None
        Matrix that correlates the noise of the rounds.
    """

    values: NDArray[np.float64]
    answer: NDArray[np.float64]
    noise: NDArray[np.float64]
    deviation: float
    round_number: int
    is_share: bool = False
    is_skellam: bool = False
    matrix: Factorization | None = None


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
        drawn = answer = mechanism(*args, **kwargs)
        kind = np.asarray(answer).dtype
        if self.given is not None:
            if len(self.calls) >= len(self.given):
                raise NotAlike(f"{name} was asked once more than in the neighbor")
            answer = self.given[len(self.calls)].answer.astype(kind)
            if answer.shape != np.shape(drawn):
                raise NotAlike(f"{name} was asked about {np.size(drawn)} numbers, in the neighbor about {answer.size}")
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
        exact, given, own = (np.array(each, np.float64) for each in (values, answer, drawn))
        noise = (own - exact).reshape(-1)
        is_share = name in SHARES
        self.calls.append(Asked(exact, given, noise, deviation, self.now(), is_share, name == "skellam", matrix))
        return answer


class Replayed(NamedTuple):
    """One run of a pair: its calls, all that it releases, and what it claims.

    Parameters
    ----------
    calls : sequence of Asked
        All calls, in their order.
    left : mapping
        All that left the run, by the name of its file or stream.
    epsilon, delta : float
        Claim of the whole run.
    rounds : int
        Number of committed rounds.
    rate : float
        Claimed rate of Poisson sampling; 1 where none is claimed.
    took_part : ndarray of bool
        Whether each node was asked to train, (rounds, nodes).
    is_secure : bool
        Whether nothing but the operating system gives the noise, so that another run has other noise.
    """

    calls: Sequence[Asked]
    left: Mapping[str, Any]
    epsilon: float
    delta: float
    rounds: int
    rate: float = 1.0
    took_part: NDArray[np.bool_] | None = None
    is_secure: bool = False


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
    if differ := [name for name in {**first.left, **again.left} if first.left.get(name) != again.left.get(name)]:
        return RunLoss(math.inf, f"the noisy answers are the same, and {differ[0]} differs")
    if why := _why_known(first, again):
        return RunLoss(math.inf, why)
    spent = _epsilon(first, [one.values - other.values for one, other in zip(first.calls, again.calls, strict=True)])
    return RunLoss(spent / first.epsilon)


def _why_known(first: Replayed, again: Replayed) -> str:
    """Return why noise or coins do not hide what they are to hide; empty if nothing shows."""
    runs = (first, again) if first.is_secure else (first,)
    one = first.calls[0]
    steps = 1 / one.deviation if one.is_share else 0.0
    why = why_not_noise(np.concatenate([_in_deviations(run.calls) for run in runs]), steps=steps)
    if why or first.rate == 1 or first.took_part is None:
        return why
    return why_not_coins(first.took_part, first.rate)


def _in_deviations(calls: Sequence[Asked]) -> NDArray[np.float64]:
    """Return the noise of each call, (calls, entries), in its standard deviations; correlated noise before C^-1."""
    rows = np.stack([call.noise for call in calls])
    matrix = calls[0].matrix
    fresh = rows if matrix is None else matrix.matrix()[: len(rows), : len(rows)] @ rows
    return np.asarray(fresh / np.array([call.deviation for call in calls])[:, None], np.float64)


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
    if not mu:
        return 0.0
    skellam = run.calls[0].is_skellam
    return epsilon_at_least(mu, rounds, delta=run.delta, rate=run.rate, is_skellam=skellam)
