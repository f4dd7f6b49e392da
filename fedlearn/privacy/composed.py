"""Sums of a ledger's bookings, pure epsilons and Gaussian mechanisms together, and whether a budget holds them.

Lines that count in different things are counted in the weaker one. To replace a unit moves a sum by twice the clipping
norm, so that a Gaussian mechanism then counts with half its noise multiplier, and without amplification by sampling. So
does one that protects nodes, beside lines that protect records: another record is another vector of its node.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedlearn.privacy.accounts.filter import RdpFilter
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds, merged
from fedlearn.privacy.bookings import Booking, total
from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine

SLACK = 1e-9


def spent_by(bookings: Iterable[Booking], *, delta: float = 0.0, most: float = math.inf) -> PrivacySpent:
    """Return what bookings have spent together, at a delta and by the filter of a ceiling; infinite at delta 0.

    Parameters
    ----------
    bookings : iterable of Booking
        In the order in which they were written.
    delta : float, default=0.0
        Probability in [0, 1); it counts where there is a Gaussian mechanism.
    most : float, default=math.inf
        Ceiling of epsilon that they were admitted under.
    """
    listed = list(bookings)
    pure = total(each for each in listed if each.mechanism is None)
    if all(each.mechanism is None for each in listed):
        return pure
    relation, unit = _common(listed)
    epsilon = _filter(listed, delta=delta, most=most).spent() if delta else math.inf
    lines = tuple(_line(each, delta) for each in listed)
    return PrivacySpent(epsilon, relation, unit, all(each.is_secure for each in listed), lines, delta)


def are_within(bookings: Sequence[Booking], *, most: float, delta: float = 0.0) -> bool:
    """Return whether bookings together stay within epsilon `most` at delta, whatever was chosen when."""
    if all(each.mechanism is None for each in bookings):
        epsilon = total(bookings).epsilon
        return epsilon <= most * (1 + SLACK) and epsilon < math.inf
    first = next(each for each in bookings if each.mechanism is not None)
    if first.plan is not None and first.plan.sampling_rate < 1 and (first.relation, first.unit) != _common(bookings):
        return False  # the first part is the filter's yardstick, and would be another one than when it was admitted
    return delta > 0 and _filter(bookings, delta=delta, most=most).holds()


def _filter(listed: Sequence[Booking], *, delta: float, most: float) -> RdpFilter:
    """Return the filter after these bookings, of which one at least is Gaussian."""
    relation, unit = _common(listed)
    at = next(at for at, each in enumerate(listed) if each.mechanism is not None)

    def pure(some: Sequence[Booking]) -> float:
        found = total(each for each in some if each.mechanism is None)
        return found.epsilon if found.relation is relation else found.under(relation).epsilon

    plan = listed[at].plan
    assert plan is not None
    return RdpFilter(
        most,
        delta,
        _parts(listed, relation, unit),
        _counted(listed[at], plan, relation, unit),
        pure(listed),
        pure(listed[:at]),
    )


def _common(listed: Sequence[Booking]) -> tuple[NeighboringRelation, PrivacyUnit]:
    """Return the relation and the unit in which all bookings can be counted."""
    is_replaced = any(each.relation is NeighboringRelation.REPLACE for each in listed)
    is_of_records = any(each.unit is PrivacyUnit.RECORD for each in listed)
    return (
        NeighboringRelation.REPLACE if is_replaced else NeighboringRelation.ADD_REMOVE,
        PrivacyUnit.RECORD if is_of_records else PrivacyUnit.NODE,
    )


def _counted(
    booking: Booking, mechanism: GaussianRounds, relation: NeighboringRelation, unit: PrivacyUnit
) -> GaussianRounds:
    """Return a booking's mechanism as it counts in a relation and a unit."""
    if booking.relation is relation and booking.unit is unit:
        return mechanism
    return replace(mechanism, noise_multiplier=mechanism.noise_multiplier / 2, sampling_rate=1.0)


def _parts(listed: Sequence[Booking], relation: NeighboringRelation, unit: PrivacyUnit) -> tuple[GaussianRounds, ...]:
    """Return the mechanisms that count: of shares of a run that differ in nothing else, the one with most rounds."""
    runs: defaultdict[str, defaultdict[str, list[GaussianRounds]]] = defaultdict(lambda: defaultdict(list))
    for each in listed:
        if each.mechanism is not None:
            counted = _counted(each, each.mechanism, relation, unit)
            whole = each.run if relation is NeighboringRelation.REPLACE else each.run.partition("/")[0]
            runs[whole][each.run].append(counted)
    found: list[GaussianRounds] = []
    for shares in runs.values():
        sums = [merged(parts) for parts in shares.values()]
        kinds = {(part.noise_multiplier, part.sampling_rate, part.is_skellam) for parts in sums for part in parts}
        if len(kinds) == 1:
            found.append(max((parts[0] for parts in sums if parts), key=lambda part: part.rounds))
        else:
            found.extend(part for parts in sums for part in parts)
    return tuple(found)


def _line(booking: Booking, delta: float) -> SpentLine:
    """Return a booking as a line of an account, with the epsilon that its mechanism would have alone."""
    if booking.mechanism is None:
        return SpentLine(booking.about, booking.epsilon, is_secure=booking.is_secure)
    alone = RdpFilter(math.inf, delta, (booking.mechanism,)).spent() if delta else math.inf
    return SpentLine(booking.about, alone, is_secure=booking.is_secure)
