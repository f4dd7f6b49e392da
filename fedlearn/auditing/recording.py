"""Recording and replaying of mechanisms: their calls, their answers, and the likelihood ratios of the answers.

A fit on one data set is recorded: every call of a mechanism with its answer. Then the fit is replayed on a neighbor,
where every call gets the recorded answer. The privacy loss of these answers is their log-likelihood ratio between the
two data sets, which is known exactly: see `RATIOS`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.mechanisms.scale import FloatArray, by_row, noise_scale
from fedlearn.privacy.noise import seeded_noise

MOST_SOURCES = 4  # sources of randomness of a fit that are checked; an estimator has two
PROBED = 2.0**40  # scale of the draws that identify a source
SURPRISE = 0.5  # share of the choices that are uniform, so that unlikely ones occur, too


class NotAlike(Exception):
    """Neighbors called mechanisms with different questions, which alone is an infinite loss."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a mechanism: its question and its answer."""

    mechanism: str
    asked_by: str  # functions that called it, the inner one first
    values: FloatArray  # the private values
    parameters: Mapping[str, Any]
    answer: NDArray[Any]

    @property
    def form(self) -> tuple[object, ...]:
        """Public part of the question, equal on neighbors: all but the values, and which candidates there are."""
        candidates = np.isneginf(self.values).tobytes() if self.mechanism in SELECTIONS else b""
        public = {name: np.asarray(value).tobytes() for name, value in sorted(self.parameters.items())}
        return self.mechanism, self.asked_by, self.values.shape, tuple(public.items()), candidates


Ratio: TypeAlias = Callable[[Call, Call, float], float]


class Sources:
    """Sources of the randomness of a fit: a few draws of each, or its state.

    Two fits with secret randomness never have a draw in common. A seed that is a constant or a parameter is found.
    """

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # by id; keeps the objects, so that no id is used again
        self.draws: list[bytes] = []
        self.are_secure = True

    def add(self, source: Any) -> None:
        """Record draws of a new source of noise, or the state of a new generator."""
        if source is None or id(source) in self._seen or len(self._seen) == MOST_SOURCES:
            return
        self._seen[id(source)] = source
        if isinstance(source, np.random.Generator):
            self.draws.append(repr(source.bit_generator.state).encode())
        elif source.is_secure:
            self.draws.append(source.discrete_laplace(PROBED, 2).tobytes())
        else:
            self.are_secure = False

    def why_known(self, others: Sources) -> str:
        """Return why the randomness of two fits does not protect; empty if no reason was found."""
        if not (self.are_secure and others.are_secure):
            return "noise is seeded where it has to be secure"
        drawn = [*self.draws, *others.draws]
        return "" if len(set(drawn)) == len(drawn) else "secret randomness came twice: it can be drawn again"


class Recorder:
    """Interceptor that answers at random and records calls and answers; half of the choices are uniform.

    Parameters
    ----------
    rng
        Source of the answers.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.noise = seeded_noise(rng)
        self.sources = Sources()
        self.calls: list[Call] = []

    def __call__(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an answer that the mechanism may give."""
        values, parameters = _question(mechanism, args, kwargs, self.sources)
        if mechanism.__name__ in SELECTIONS and self.rng.random() < SURPRISE:
            answer = np.where(np.isneginf(values), -1.0, self.rng.random(values.shape)).argmax(axis=1)
        elif mechanism.__name__ == PARTS:
            answer = mechanism(int(values), rng=self.rng, **parameters)
        else:
            answer = mechanism(*args, **{**kwargs, "noise": self.noise})
        self.calls.append(Call(mechanism.__name__, _asked_by(), values, parameters, answer))
        return answer.copy()


class Replayer:
    """Interceptor that gives the recorded answers and records its own calls.

    Parameters
    ----------
    recorded
        Calls of the neighbor.
    rng
        Source of the part of a record that only one data set has.
    at_front
        Whether the record that only one data set has is the first one; else it is the last.
    """

    def __init__(self, recorded: list[Call], rng: np.random.Generator, *, at_front: bool) -> None:
        self.recorded = recorded
        self.rng = rng
        self.at_front = at_front
        self.sources = Sources()
        self.calls: list[Call] = []

    def __call__(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the neighbor's answer to the same call; raise `NotAlike` where the neighbor's call was another."""
        values, parameters = _question(mechanism, args, kwargs, self.sources)
        asked_by, number = _asked_by(), len(self.calls)
        if number == len(self.recorded):
            raise NotAlike(f"call {number} of {mechanism.__name__} by {asked_by}: the neighbor has no such call")
        known = self.recorded[number]
        answer = self._parts(known.answer, int(values)) if mechanism.__name__ == PARTS else known.answer
        call = Call(mechanism.__name__, asked_by, values, parameters, answer)
        if call.form != known.form:
            raise NotAlike(f"call {number}, {mechanism.__name__} by {asked_by}: its form differs")
        self.calls.append(call)
        return answer.copy()

    def _parts(self, recorded: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
        """Return the recorded parts of common records, and a random part for a record that only this data set has."""
        fewer, more = min(rows, len(recorded)), max(rows, len(recorded))
        common = recorded[more - fewer :] if self.at_front and rows < len(recorded) else recorded[:fewer]
        own = self.rng.integers(recorded.max(initial=0) + 1, size=rows - fewer)
        return np.concatenate([own, common] if self.at_front else [common, own])


def _question(
    mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], sources: Sources
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the values and the other parameters of a call; add its source of randomness to `sources`."""
    if mechanism.__name__ not in RATIOS:
        raise ValueError(f"mechanism {mechanism.__name__!r}: its exact log-ratio is not known; add it to RATIOS")
    given = inspect.signature(mechanism).bind(*args, **kwargs)
    given.apply_defaults()
    values, *_ = given.arguments.values()
    sources.add(given.arguments.get("noise", given.arguments.get("rng")))
    rest = {name: value for name, value in list(given.arguments.items())[1:] if name not in ("noise", "rng")}
    return np.asarray(values, np.float64), rest


def _asked_by() -> str:
    """Return the names of the two innermost callers outside mechanisms and auditors; slips are planted by this name."""
    names: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(names) < 2:
        caller = str(frame.f_globals.get("__name__", ""))
        if not caller.startswith("fedlearn.privacy.") and caller.rpartition(".")[0] != "fedlearn.auditing":
            names.append(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return " of ".join(names)


def why_too_few(calls: Sequence[Call]) -> str:
    """Return which sum of shares has too few shares, and so too little noise; empty if none has.

    The shares of one sum are consecutive calls of one form, one for each report.
    """
    for _, same in groupby((call for call in calls if call.mechanism in SHARES), key=lambda call: call.form):
        sent = list(same)
        if len(sent) < (shares := sent[0].parameters["shares"]):
            return f"{len(sent)} reports have 1/{shares} of the noise each"
    return ""


def added_noise(first: Call, second: Call, stretch: float) -> float:
    """Return the largest log-ratio of additive noise over all answers: epsilon times L1 distance over sensitivity.

    The log-density of the noise falls by epsilon / sensitivity with each unit, so every answer beyond all values has
    this ratio.
    """
    apart = np.abs(first.values - second.values)
    epsilon = by_row(np.asarray(first.parameters["epsilon"], np.float64), apart.shape)
    return float((apart * epsilon).sum() / first.parameters["sensitivity"] * stretch)


def gaussian_mu(first: Call, second: Call, stretch: float) -> float:
    """Return the square of the distance of two sums in the L2 norm, in standard deviations of their Gaussian noise.

    The log-ratio of the answers is a Gaussian number with this variance and half of it as its mean: such squares add up
    over answers, and their sum is that of the mu^2 of `GaussianRounds.gaussian_mu`. Shares of noise count as the
    noise of the whole sum; see `why_too_few`.
    """
    public = first.parameters
    reach = public["clip"] if "clip" in public else public["sensitivity"]
    if not public["noise_multiplier"]:
        return float(np.inf) if (first.values != second.values).any() else 0.0
    return float((np.linalg.norm(first.values - second.values) / reach / public["noise_multiplier"] * stretch) ** 2)


def chosen(log_probability: Callable[[FloatArray, FloatArray, NDArray[np.int64]], FloatArray]) -> Ratio:
    """Return the function that computes the signed log-ratio of recorded choices."""

    def ratio(first: Call, second: Call, stretch: float) -> float:
        reach = first.parameters["sensitivity"] * (1 if first.parameters["monotone"] else 2)
        rows = len(first.values)
        scale = np.broadcast_to(noise_scale(reach, first.parameters["epsilon"]), rows) / stretch
        differs = np.flatnonzero((first.values != second.values).any(axis=1))
        both = (
            log_probability(call.values[differs], scale[differs], first.answer[differs]) for call in (first, second)
        )
        here, there = both
        return float((here - there).sum())

    return ratio


def log_exponential(utilities: FloatArray, scale: FloatArray, answer: NDArray[np.int64]) -> FloatArray:
    """Return the log-probability of each answer, (rows,): a probability proportional to exp(utility / scale)."""
    below = (utilities - utilities.max(axis=1, keepdims=True)) / scale[:, None]
    return np.asarray(below[np.arange(len(answer)), answer] - np.log(np.exp(below).sum(axis=1)))


def log_permute_and_flip(utilities: FloatArray, scale: FloatArray, answer: NDArray[np.int64]) -> FloatArray:
    """Return the log-probability of each answer, (rows,): log of q_r times the integral of prod_(i != r) (1 - q_i t).

    q_i = exp((u_i - top) / scale), and t runs over [0, 1]. Candidate r has place t in the random order; its coin shows
    heads, and the coins of all candidates before it show tails (McKenna, Sheldon 2020, algorithm 1). The product is a
    polynomial in t whose degree is below the number of candidates, so Gauss-Legendre quadrature is exact.
    """
    row = np.arange(len(answer))
    below = (utilities - utilities.max(axis=1, keepdims=True)) / scale[:, None]
    heads = np.exp(below)
    heads[row, answer] = 0.0
    place, weight = np.polynomial.legendre.leggauss(utilities.shape[1] // 2 + 1)
    none_before = np.prod(1 - heads[:, :, None] * (place + 1) / 2, axis=1)  # (rows, places)
    return np.asarray(below[row, answer] + np.log(none_before @ weight / 2))


def own_part(first: Call, second: Call, stretch: float) -> float:
    """Return 0: the parts of common records have the same distribution on both data sets."""
    return 0.0


PARTS = "disjoint_parts"
SHARES = ("polya_share", "skellam", "gaussian_share")
GAUSSIANS = ("gaussian", "skellam", "gaussian_share")
SELECTIONS = ("exponential", "permute_and_flip")
RATIOS: dict[str, Ratio] = {
    "geometric": added_noise,
    "polya_share": added_noise,  # of the sum over nodes, for which its epsilon holds; see `why_too_few`
    "gaussian": gaussian_mu,
    "skellam": gaussian_mu,
    "gaussian_share": gaussian_mu,
    "laplace": added_noise,
    "exponential": chosen(log_exponential),
    "permute_and_flip": chosen(log_permute_and_flip),
    PARTS: own_part,
}
"""Mechanism -> function (call, the neighbor's call, factor of epsilon) that returns the answers' log-ratio, in nats.

The log-ratio of choices is signed, and that of the recorded answer; that of added noise is the largest over all
answers. That of Gaussian noise is not bounded: its entry is the square of mu. A mechanism that only calls others needs
no entry.
"""
