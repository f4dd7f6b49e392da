"""The exact auditor: the privacy loss of a whole fit, computed rather than estimated.

The likelihood ratios are the closed forms of `recording`. The README says what a replay proves, and what not.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.pairs import Draw, Pair, changed
from fedlearn.auditing.recording import GAUSSIANS, RATIOS, SELECTIONS, Call, NotAlike, Recorder, Replayer, why_too_few
from fedlearn.privacy.mechanisms.interception import intercepted_by

SLIP = 1.05  # factor of a planted error in epsilon; a sensitivity that is 5 % too small has the same effect
TOLERANCE = 1e-6  # relative: utilities are floats
CHANGED = 0.6  # share of the pairs that are made from the worst pair so far; the others are drawn anew


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Privacy loss of one pair for one outcome, as a share of the claim: at most 1."""

    share: float
    slipped: dict[str, float] = field(default_factory=dict)  # caller -> share if its epsilon were 5 % too large
    why: str = ""  # why the loss is infinite: what differs between the neighbors although all answers are the same


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of the replays of one row.

    Parameters
    ----------
    name : str
        Name of the row.
    pairs : int
        Number of pairs of neighboring data sets.
    largest : float
        Largest loss as a share of the claim, at most 1 if the claim holds. Infinite: results of neighbors differ
        although all answers are the same.
    seconds : float
        Wall-clock time of the replays.
    slips : mapping of str to int or None
        Caller of a mechanism -> number of the first pair that showed its planted slip; None: no pair did.
    why : str
        Reason for an infinite loss.
    """

    name: str
    pairs: int
    largest: float
    seconds: float
    slips: Mapping[str, int | None]
    why: str = ""

    @property
    def is_refuted(self) -> bool:
        """Whether a loss exceeds the claim."""
        return self.largest > 1 + TOLERANCE

    def __str__(self) -> str:
        """Return one line with the result, and with what is wrong."""
        reason = f", as {self.why}" if self.why else ""
        missed = f", slips not seen: {', '.join(self.missed)}" if self.missed else ""
        missed += ", no mechanism was asked" if self.is_blind else ""
        return f"{self.name}: {self.largest:.6g} of the claim in {self.pairs} pairs{reason}{missed}"

    @property
    def is_blind(self) -> bool:
        """Whether the row proves nothing because no mechanism was ever called."""
        return not self.slips and not self.is_refuted

    @property
    def missed(self) -> list[str]:
        """Callers whose planted slip no pair showed."""
        return [caller for caller, pair in self.slips.items() if pair is None]


def replay(name: str, draw: Draw, *, pairs: int, seed: int = 0, stops: bool = False) -> ReplayResult:
    """Return the largest loss over many pairs, each drawn anew or changed from a pair that nearly showed a slip.

    Parameters
    ----------
    name : str
        Name of the row; the draws depend on the name and the seed alone.
    draw : callable
        Function of a random generator that returns a pair.
    pairs : int
        Number of pairs.
    seed : int, default=0
        Seed of pairs and answers.
    stops : bool, default=False
        Whether to stop at the first loss that exceeds the claim.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    start = time.perf_counter()
    slips: dict[str, int | None] = {}
    worst: dict[str, tuple[float, Pair]] = {}  # caller -> the pair in which its slip showed most
    largest, why = 0.0, ""
    for number in range(1, pairs + 1):
        known = [worst[caller][1] for caller in worst if slips[caller] is None] or [pair for _, pair in worst.values()]
        pair = changed(known[rng.integers(len(known))], rng) if known and rng.random() < CHANGED else draw(rng)
        loss = loss_of(pair, rng)
        if loss.share > largest:
            largest, why = loss.share, loss.why
        for caller, share in loss.slipped.items():
            if caller not in worst or share > worst[caller][0]:
                worst[caller] = share, pair
            if slips.setdefault(caller, None) is None and share > 1 + TOLERANCE:
                slips[caller] = number
        if stops and loss.share > 1 + TOLERANCE:
            break
    return ReplayResult(name, number, largest, time.perf_counter() - start, slips, why)


def loss_of(pair: Pair, rng: np.random.Generator) -> Loss:
    """Return the privacy loss of a pair for one outcome, which is drawn on one of its two data sets."""
    sides = (pair.first, pair.second) if rng.random() < 0.5 else (pair.second, pair.first)
    recorder = Recorder(rng)
    with intercepted_by(recorder):
        published = _published(sides[0])
    replayer = Replayer(recorder.calls, rng, at_front=pair.at_front)
    try:
        with intercepted_by(replayer):
            again = _published(sides[1])
    except NotAlike as error:
        return Loss(np.inf, why=str(error))
    if len(replayer.calls) < len(recorder.calls):
        return Loss(np.inf, why=f"{len(recorder.calls)} calls, the neighbor has {len(replayer.calls)}")
    if as_bytes(published) != as_bytes(again):
        return Loss(np.inf, why="the answers are the same, and what is published differs")
    if isinstance(published, Failed):
        return Loss(
            np.inf, why=f"no result can be published, whatever the records: {published.kind}: {published.message}"
        )
    if why := why_too_few(recorder.calls) or (recorder.sources.why_known(replayer.sources) if pair.is_secret else ""):
        return Loss(np.inf, why=why)
    claimed, mu = (claim(published) if callable(claim) else claim for claim in (pair.claimed, pair.claimed_mu))
    return _added_up(recorder.calls, replayer.calls, Claim(claimed, mu, pair.booked(published)))


@dataclass(frozen=True, slots=True)
class Claim:
    """A pair's claims: pure epsilon and mu of all calls together, and epsilon of all calls of one caller."""

    epsilon: float
    mu: float
    booked: Mapping[str, float]

    def share(self, losses: Mapping[str, NDArray[np.float64]]) -> float:
        """Return the largest share of a claim by losses, each of noise, choices and Gaussian noise (squared)."""
        noise, choices, squares = sum(losses.values(), np.zeros(3))
        alone = [_either_way(losses[caller]) / epsilon for caller, epsilon in self.booked.items() if caller in losses]
        return max(_part(noise + abs(choices), self.epsilon), _part(squares**0.5, self.mu), *alone, 0.0)


def _added_up(calls: list[Call], others: list[Call], claim: Claim) -> Loss:
    """Return the largest share of a claim: of all calls together, or of one caller whose epsilon is booked.

    A loss is the absolute log-ratio of the choices, plus the largest log-ratio that added noise allows. Gaussian noise
    counts apart: mu is the root of the sum of squares.
    """
    as_is: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(3))
    slipped: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(3))
    for call, other in zip(calls, others, strict=True):
        kind = 1 if call.mechanism in SELECTIONS else 2 if call.mechanism in GAUSSIANS else 0
        ratio = RATIOS[call.mechanism]
        as_is[call.asked_by][kind] += ratio(call, other, 1.0)
        if "epsilon" in call.parameters or kind == 2:
            slipped[call.asked_by][kind] += ratio(call, other, SLIP)
    return Loss(claim.share(as_is), {caller: claim.share(as_is | {caller: own}) for caller, own in slipped.items()})


def _part(loss: float, claimed: float) -> float:
    """Return a loss as a share of a claim, which may be that there is none."""
    return float(loss / claimed) if claimed else float(np.inf if loss else 0.0)


def _either_way(loss: NDArray[np.float64]) -> float:
    return float(loss[0] + abs(loss[1]))


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in place of a result; errors count as published."""

    kind: str
    message: str


def _published(publish: Callable[[], Any]) -> Any:
    """Return the result, or the error that was raised in its place."""
    try:
        return publish()
    except NotAlike:
        raise
    except Exception as error:
        return Failed(type(error).__name__, str(error))


def as_bytes(value: Any) -> bytes:
    """Return bytes that are equal exactly for values that are equal to the last bit.

    >>> as_bytes({"a": np.zeros(2)}) == as_bytes({"a": np.array([0.0, -0.0])})
    False
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        return repr((value.dtype.str, value.shape)).encode() + value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return as_bytes({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        return b"{" + b",".join(as_bytes(key) + b":" + as_bytes(each) for key, each in value.items()) + b"}"
    if isinstance(value, list | tuple | np.ndarray):
        return b"[" + b",".join(map(as_bytes, value)) + b"]"
    if hasattr(value, "__dict__") and not isinstance(value, type | FunctionType):
        return type(value).__name__.encode() + as_bytes(vars(value))
    return repr(value).encode()
