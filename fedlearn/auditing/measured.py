"""The statistical auditor: a lower bound on epsilon from many outputs on two neighboring data sets.

An event of probability p on one data set and q on the other proves that epsilon is at least log(p / q). The event is
chosen on one half of the draws and tested on the other half, so the choice costs no confidence. A bound above the claim
proves a leak. A bound below it proves nothing, as only some events were tested, on one pair of data sets.

Source: Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy (the two halves); Jagielski,
Ullman, Oprea 2020, Auditing differentially private machine learning (Clopper-Pearson bounds on log(p / q)).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.cases import MECHANISM_CASES, AuditCase
from fedlearn.privacy.events import log_ratio_bound, worst_event
from fedlearn.privacy.noise import secure_noise, seeded_noise

Draw: TypeAlias = Callable[[int], NDArray[Any]]  # count -> (count,) or (count, k) independent outputs


class Verdict(StrEnum):
    """Verdict on a claim."""

    NOT_REFUTED = "not refuted"  # no tested event contradicts the claim
    REFUTED = "refuted"  # at the stated confidence the claim is wrong


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The claimed epsilon, and the lower bound that the outputs prove.

    Parameters
    ----------
    name : str
        Name of the audited mechanism.
    claimed : float
        Claimed epsilon, in nats.
    measured : float
        Lower bound on the true epsilon at the given confidence, in nats; 0 or more.
    confidence : float
        Confidence of the bound, in (0, 1).
    draws : int
        Number of outputs of each data set; one half chooses the event, the other half tests it.
    worst_event : str
        The event in words, with the data set on which it is likelier.

    Examples
    --------
    >>> print(AuditResult("leaf", claimed=1, measured=1.93, confidence=0.9999, draws=5000, worst_event="output > 2"))
    leaf: claimed 1, at least 1.93 (confidence 0.9999, 5000 draws, output > 2): refuted
    """

    name: str
    claimed: float
    measured: float
    confidence: float
    draws: int
    worst_event: str

    @property
    def verdict(self) -> Verdict:
        """REFUTED if the outputs prove a larger epsilon than the claimed one."""
        return Verdict.REFUTED if self.measured > self.claimed else Verdict.NOT_REFUTED

    def __str__(self) -> str:
        return (
            f"{self.name}: claimed {self.claimed:g}, at least {self.measured:.3g} "
            f"(confidence {self.confidence:g}, {self.draws} draws, {self.worst_event}): {self.verdict.value}"
        )


def audit(
    name: str, first: Draw, second: Draw, *, claimed: float, draws: int, confidence: float = 0.9999, delta: float = 0.0
) -> AuditResult:
    """Return a lower bound on epsilon from outputs on two neighboring data sets.

    Tested events: each output number at or above a cut, below it and, where there are few values, equal to it; and all
    numbers of a row together, by the sum of their log-ratios.

    Parameters
    ----------
    name : str
        Name of the audited mechanism.
    first, second : callable
        Functions of a number of draws that return that many independent outputs on one of the data sets, one row each:
        a mechanism's answers, or values of a fitted model (a leaf value, the root's feature).
    claimed : float
        Epsilon to refute, in nats.
    draws : int
        Number of outputs of each data set, 4 or more; more draws give a larger bound.
    confidence : float, default=0.9999
        Confidence of the bound, in (0, 1).
    delta : float, default=0.0
        Probability at which epsilon is claimed.

    Examples
    --------
    >>> from fedlearn.privacy import geometric, seeded_noise
    >>> noise = seeded_noise(0)
    >>> def count(value):  # twice the epsilon that is claimed
    ...     return lambda draws: geometric(np.full((draws, 1), value), epsilon=2.0, noise=noise)
    >>> audit("a count", count(3), count(4), claimed=1.0, draws=20_000).verdict.value
    'refuted'
    """
    if draws < 4 or not 0 < confidence < 1:
        raise ValueError(f"draws = {draws!r}, confidence = {confidence!r}: need 4 or more, and a number in (0, 1)")
    outputs = _outputs(first, draws), _outputs(second, draws)
    half = draws // 2
    event = worst_event(outputs[0][:half], outputs[1][:half], confidence, delta)
    likely, unlikely = outputs[::-1] if event.is_second_likelier else outputs
    hits, misses = np.array([event.hits(likely[half:])]), np.array([event.hits(unlikely[half:])])
    measured = float(log_ratio_bound(hits, misses, draws - half, confidence, delta)[0])
    where = "second" if event.is_second_likelier else "first"
    return AuditResult(name, claimed, measured, confidence, draws, f"{event.words}, likelier on the {where}")


def audit_everything(
    draws: int = 100_000,
    seed: int | None = None,
    cases: Mapping[str, AuditCase] = MECHANISM_CASES,
    *,
    confidence: float = 0.9999,
) -> list[AuditResult]:
    """Audit each case with secure noise, or with seeded noise if a seed is given; return one result each, in order.

    The seed of a case is derived from its name, so that its result does not depend on which others are audited.

    Parameters
    ----------
    draws : int, default=100000
        Number of outputs of each data set; it is divided by the cost of a case.
    seed : int or None, default=None
        Seed of the noise. None: secure noise is audited.
    cases : mapping of str to AuditCase, default=MECHANISM_CASES
        Cases by name.
    confidence : float, default=0.9999
        Confidence of each bound, in (0, 1).

    Examples
    --------
    >>> [result] = audit_everything(4000, seed=1, cases={"geometric": MECHANISM_CASES["geometric"]})
    >>> result.verdict.value
    'not refuted'
    """
    return [_audit_case(name, case, draws, seed, confidence) for name, case in cases.items()]


def _audit_case(name: str, case: AuditCase, draws: int, seed: int | None, confidence: float) -> AuditResult:
    noise = secure_noise() if seed is None else seeded_noise(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))
    return audit(
        name,
        lambda count: case.first(count, noise),
        lambda count: case.second(count, noise),
        claimed=case.epsilon,
        draws=max(draws // case.cost, 4),
        confidence=confidence,
        delta=case.delta,
    )


def _outputs(draw: Draw, draws: int) -> NDArray[np.float64]:
    rows = np.asarray(draw(draws), np.float64)
    if rows.ndim not in (1, 2) or len(rows) != draws or not rows.size or np.isnan(rows).any():
        raise ValueError(f"outputs of shape {rows.shape}: must be ({draws},) or ({draws}, k), without NaN")
    return rows.reshape(draws, -1)
