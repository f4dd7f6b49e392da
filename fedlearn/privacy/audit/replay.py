"""The exact auditor: what a whole fit gives away of one record, computed rather than estimated.

Source of the likelihood ratios: the closed forms in `tape`. What a replay proves, and what not, stands in the README.
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

from fedlearn.privacy.audit.pairs import Draw, Pair, changed
from fedlearn.privacy.audit.tape import RATIOS, SELECTIONS, Call, NotAlike, Recorder, Replayer, why_too_few
from fedlearn.privacy.mechanisms.interception import intercepted_by

SLIP = 1.05  # of an epsilon; a sensitivity that is 5 % too small is the same to a mechanism
TOLERANCE = 1e-6  # relative: utilities are floats
CHANGED = 0.6  # share of the pairs that are not drawn anew, but made from a bad one


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """What one pair loses for one outcome, per claim: 1 is all that it may."""

    share: float
    slipped: dict[str, float] = field(default_factory=dict)  # the same if that caller's epsilon were 5 % too large
    why: str = ""  # where the neighbors were told apart without any answer


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What was found out about one claim.

    Parameters
    ----------
    name : str
        What was replayed.
    pairs : int
        Pairs of neighboring data sets.
    largest : float
        The largest loss, per claim; 1 is all that it may be. Infinite: neighbors were told apart without any answer.
    seconds : float
        What it took.
    slips : mapping of str to int or None
        Of each caller of a mechanism, which pair showed that its epsilon was too large by 5 %, where it was planted.
    why : str
        What told neighbors apart, where no answer did.
    """

    name: str
    pairs: int
    largest: float
    seconds: float
    slips: Mapping[str, int | None]
    why: str = ""

    @property
    def is_refuted(self) -> bool:
        """Whether a loss passes the claim."""
        return self.largest > 1 + TOLERANCE

    def __str__(self) -> str:
        """Return one line that says what is wrong, if anything is."""
        told = f", as {self.why}" if self.why else ""
        missed = f", slips not seen: {', '.join(self.missed)}" if self.missed else ""
        missed += ", no mechanism was asked" if self.is_blind else ""
        return f"{self.name}: {self.largest:.6g} of the claim in {self.pairs} pairs{told}{missed}"

    @property
    def is_blind(self) -> bool:
        """Whether nothing was looked at: no mechanism was ever asked."""
        return not self.slips and not self.is_refuted

    @property
    def missed(self) -> list[str]:
        """Callers whose slip was not seen."""
        return [caller for caller, pair in self.slips.items() if pair is None]


def replay(name: str, draw: Draw, *, pairs: int, seed: int = 0, stops: bool = False) -> ReplayResult:
    """Return the largest loss over many pairs: drawn anew, or changed from one in which a slip nearly showed.

    Parameters
    ----------
    name : str
        What is replayed; the draws depend on it and on the seed alone.
    draw : callable
        From a random generator to a pair.
    pairs : int
        How many.
    seed : int, default=0
        Of pairs and answers.
    stops : bool, default=False
        Whether a loss that passes the claim ends it.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    start = time.perf_counter()
    slips: dict[str, int | None] = {}
    worst: dict[str, tuple[float, Pair]] = {}  # of each caller, where its slip showed most
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
    """Return what one outcome, drawn on one of the two data sets, tells of the pair."""
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
            np.inf, why=f"nothing can be published, whatever the records: {published.kind}: {published.message}"
        )
    if why := why_too_few(recorder.calls) or (recorder.sources.why_known(replayer.sources) if pair.is_secret else ""):
        return Loss(np.inf, why=why)
    claimed = pair.claimed(published) if callable(pair.claimed) else pair.claimed
    return _added_up(recorder.calls, replayer.calls, claimed, pair.booked(published))


def _added_up(calls: list[Call], others: list[Call], claimed: float, booked: Mapping[str, float]) -> Loss:
    """Return the loss of all calls together, and of one caller's where that is booked; the largest share counts.

    A loss is that of the choices, either way, and the most that added noise allows.
    """
    as_is: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))  # added noise, choices
    slipped: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
    for call, other in zip(calls, others, strict=True):
        kind = int(call.mechanism in SELECTIONS)
        ratio = RATIOS[call.mechanism]
        as_is[call.asked_by][kind] += ratio(call, other, 1.0)
        if "epsilon" in call.parameters:
            slipped[call.asked_by][kind] += ratio(call, other, SLIP)

    def share(losses: Mapping[str, NDArray[np.float64]]) -> float:
        alone = [_either_way(losses[caller]) / epsilon for caller, epsilon in booked.items() if caller in losses]
        return max(_either_way(sum(losses.values(), np.zeros(2))) / claimed, *alone, 0.0)

    return Loss(share(as_is), {caller: share(as_is | {caller: own}) for caller, own in slipped.items()})


def _either_way(loss: NDArray[np.float64]) -> float:
    return float(loss[0] + abs(loss[1]))


@dataclass(frozen=True, slots=True)
class Failed:
    """An error, which is published, too."""

    kind: str
    message: str


def _published(publish: Callable[[], Any]) -> Any:
    """Return what is published, or the error that was."""
    try:
        return publish()
    except NotAlike:
        raise
    except Exception as error:
        return Failed(type(error).__name__, str(error))


def as_bytes(value: Any) -> bytes:
    """Return bytes that are the same for what is equal to the last bit.

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
