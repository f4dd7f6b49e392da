"""A tape in the place of the mechanisms: what they were asked, what they answered, and what that gives away.

A fit is run on one data set while every call of a mechanism is recorded, with its answer. Then it is run on a neighbor,
where every call gets the recorded answer. For these answers, the two data sets are told apart by the likelihood ratio
of the answers, which is known exactly: see `RATIOS`.
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

MOST_SOURCES = 4  # of randomness, of which a fit's are looked at: an estimator has two
PROBED = 2.0**40  # scale of the draws by which sources are told apart
SURPRISE = 0.5  # share of the choices that are even, so that unlikely ones are seen, too


class NotAlike(Exception):
    """Neighbors were asked different questions: that alone tells them apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One question to a mechanism, and its answer."""

    mechanism: str
    asked_by: str  # by which functions, the inner one first
    values: FloatArray  # what it is about: the secret
    parameters: Mapping[str, Any]
    answer: NDArray[Any]

    @property
    def form(self) -> tuple[object, ...]:
        """What anybody may know of the question before the answer: all but the values, and which candidates there are.

        Neighbors must agree in it.
        """
        candidates = np.isneginf(self.values).tobytes() if self.mechanism in SELECTIONS else b""
        public = {name: np.asarray(value).tobytes() for name, value in sorted(self.parameters.items())}
        return self.mechanism, self.asked_by, self.values.shape, tuple(public.items()), candidates


Ratio: TypeAlias = Callable[[Call, Call, float], float]


class Sources:
    """Where the randomness of a fit came from: of each source a few of its draws, or its state.

    Two fits that have secret randomness never have a draw in common. A seed that is a constant, or a parameter, shows.
    """

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # kept, so that no other object gets the same id
        self.draws: list[bytes] = []
        self.are_secure = True

    def add(self, source: Any) -> None:
        """Draw from a source of noise, if it is new, or look at the state of a generator."""
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
        """Return why the randomness of two fits is none that protects; empty if it may be."""
        if not (self.are_secure and others.are_secure):
            return "noise is seeded where it has to be secure"
        drawn = [*self.draws, *others.draws]
        return "" if len(set(drawn)) == len(drawn) else "secret randomness came twice: it can be drawn again"


class Recorder:
    """Answers by chance, and keeps calls and answers. Half of the choices are even, so that rare ones are seen."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.noise = seeded_noise(rng)
        self.sources = Sources()
        self.calls: list[Call] = []

    def __call__(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer as the mechanism might."""
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
    """Answers as was recorded, and keeps what it was asked.

    Parameters
    ----------
    recorded
        The calls of the neighbor.
    at_front
        Whether the record that makes the difference is the first one; else it is the last.
    """

    def __init__(self, recorded: list[Call], rng: np.random.Generator, *, at_front: bool) -> None:
        self.recorded = recorded
        self.rng = rng
        self.at_front = at_front
        self.sources = Sources()
        self.calls: list[Call] = []

    def __call__(self, mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer what the neighbor was answered; NotAlike where it was asked something else."""
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
        """Return the parts of the records that both have, and one of any other."""
        fewer, more = min(rows, len(recorded)), max(rows, len(recorded))
        common = recorded[more - fewer :] if self.at_front and rows < len(recorded) else recorded[:fewer]
        own = self.rng.integers(recorded.max(initial=0) + 1, size=rows - fewer)
        return np.concatenate([own, common] if self.at_front else [common, own])


def _question(
    mechanism: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], sources: Sources
) -> tuple[FloatArray, dict[str, Any]]:
    """Return what the mechanism is asked about, and its other parameters; where randomness comes from is noted."""
    if mechanism.__name__ not in RATIOS:
        raise ValueError(f"mechanism {mechanism.__name__!r}: its exact log-ratio is not known; add it to RATIOS")
    given = inspect.signature(mechanism).bind(*args, **kwargs)
    given.apply_defaults()
    values, *_ = given.arguments.values()
    sources.add(given.arguments.get("noise", given.arguments.get("rng")))
    rest = {name: value for name, value in list(given.arguments.items())[1:] if name not in ("noise", "rng")}
    return np.asarray(values, np.float64), rest


def _asked_by() -> str:
    """Return the two functions outside this package that asked: what is slipped by the auditor, one after the other."""
    names: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(names) < 2:
        if not str(frame.f_globals.get("__name__", "")).startswith("fedlearn.privacy."):
            names.append(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return " of ".join(names)


def why_too_few(calls: Sequence[Call]) -> str:
    """Return which sum of shares has less than the noise of one; empty if none has.

    The shares of one sum are asked for one after the other, in one form: as many as there are reports.
    """
    for _, same in groupby((call for call in calls if call.mechanism == SHARE), key=lambda call: call.form):
        sent = list(same)
        if len(sent) < (shares := sent[0].parameters["shares"]):
            return f"{len(sent)} reports have 1/{shares} of the noise each"
    return ""


def added_noise(first: Call, second: Call, stretch: float) -> float:
    """Return the largest log-ratio that additive noise allows for any answer: epsilon times L1 norm over sensitivity.

    The noise's log-density falls by epsilon / sensitivity with each unit, so this is the ratio of every answer
    beyond all the values.
    """
    apart = np.abs(first.values - second.values)
    epsilon = by_row(np.asarray(first.parameters["epsilon"], np.float64), apart.shape)
    return float((apart * epsilon).sum() / first.parameters["sensitivity"] * stretch)


def chosen(log_probability: Callable[[FloatArray, FloatArray, NDArray[np.int64]], FloatArray]) -> Ratio:
    """Return the signed log-ratio of the choices that were made."""

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
    """Return (rows,) the log-probability of each answer: proportional to exp(utility / scale)."""
    below = (utilities - utilities.max(axis=1, keepdims=True)) / scale[:, None]
    return np.asarray(below[np.arange(len(answer)), answer] - np.log(np.exp(below).sum(axis=1)))


def log_permute_and_flip(utilities: FloatArray, scale: FloatArray, answer: NDArray[np.int64]) -> FloatArray:
    """Return (rows,) the log-probability of each answer: log of q_r times the integral of prod_(i != r) (1 - q_i t).

    With q_i = exp((u_i - top) / scale) and t over [0, 1]: candidate r comes at a place t of the random order, its coin
    shows heads, and of the others those that came before it showed none. (McKenna, Sheldon 2020, algorithm 1.) The
    product is a polynomial in t of a degree below the number of candidates, which Gauss-Legendre integrates exactly.
    """
    row = np.arange(len(answer))
    below = (utilities - utilities.max(axis=1, keepdims=True)) / scale[:, None]
    heads = np.exp(below)
    heads[row, answer] = 0.0
    place, weight = np.polynomial.legendre.leggauss(utilities.shape[1] // 2 + 1)
    nobody_before = np.prod(1 - heads[:, :, None] * (place + 1) / 2, axis=1)  # (rows, places)
    return np.asarray(below[row, answer] + np.log(nobody_before @ weight / 2))


def own_part(first: Call, second: Call, stretch: float) -> float:
    """Return 0: the parts of the records that both have are drawn alike."""
    return 0.0


PARTS = "disjoint_parts"
SHARE = "polya_share"
SELECTIONS = ("exponential", "permute_and_flip")
RATIOS: dict[str, Ratio] = {
    "geometric": added_noise,
    SHARE: added_noise,  # of the sum over nodes, which is all that its epsilon is about; see `why_too_few`
    "laplace": added_noise,
    "exponential": chosen(log_exponential),
    "permute_and_flip": chosen(log_permute_and_flip),
    PARTS: own_part,
}
"""Of each mechanism: (call, the neighbor's, by what epsilon is stretched) -> the log-ratio of the answers, in nats.

Signed for choices, which are as they were recorded; of added noise the largest of all answers. A mechanism that makes
only use of these needs no line of its own.
"""
