"""What noise costs by kind, before anything is run: sampling, no sampling, correlated noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from fedlearn.privacy.accounts.calibration import noise_multiplier_for
from fedlearn.privacy.accounts.epsilons import Accountant
from fedlearn.privacy.factorization.banded import independent
from fedlearn.privacy.factorization.inverse_banded import Factorization, InverseBanded, inverse_square_root
from fedlearn.privacy.factorization.optimum import optimal, searched

SAMPLING = "sampling"
FEW = 4  # bands that are compared with as many as a separation allows: three rows of noise are kept
MOST_SEARCHED = 256  # rounds up to which the search over all banded matrices takes at most a second


@dataclass(frozen=True, slots=True)
class Option:
    """A way to add noise to the sums of a run, with its cost.

    Parameters
    ----------
    name : str
        The way, in words.
    assumes : str
        Participation that the promise assumes, in words.
    noise_multiplier : float
        Standard deviation of the noise that is drawn in each round, in clipping norms.
    error : float
        Root mean square, over rounds, of the noise in the sum of all rounds so far, in clipping norms.
    setting : str, default=""
        Setting of a run that protects nodes in this way; empty where there is none, or none is needed.
    """

    name: str
    assumes: str
    noise_multiplier: float
    error: float
    setting: str = ""


def most_separation(nodes: int, cohort: int, availability: float = 1.0) -> int:
    """Return the largest number of rounds that a node can be asked to wait from one participation to its next.

    While the nodes of the last s - 1 rounds wait, a cohort must be left among those that are there.

    >>> most_separation(100, 20), most_separation(1000, 20, 0.5), most_separation(10, 8)
    (5, 25, 1)
    """
    if not 1 <= cohort <= nodes or not 0 < availability <= 1:
        raise ValueError(f"{cohort} of {nodes} clients, availability {availability}: must be 1 to all, and in (0, 1]")
    return max(int(nodes * availability / cohort + 1e-9), 1)


def separations(most: int) -> list[int]:
    """Return a few separations up to the most that there can be, to be compared with it: the next ones, or halves.

    >>> separations(5), separations(50), separations(1)
    ([5, 4, 3, 2], [50, 25, 12, 6], [])
    """
    tried = range(most, 1, -1) if most <= 5 else [most // 2**power for power in range(4)]
    return [each for each in tried if each > 1]


def options(
    epsilon: float,
    delta: float,
    *,
    rounds: int,
    units: int,
    taken: int,
    separation: int = 0,
    availability: float = 1.0,
    what: str = "clients",
) -> list[Option]:
    """Return the ways to keep a promise, with the error of each, the smallest error first.

    Parameters
    ----------
    epsilon, delta : float
        Promise of the whole run.
    rounds : int
        Number of rounds.
    units, taken : int
        Number of nodes, or of a node's records, and of those that take part in a round.
    separation : int, default=0
        Smallest number of rounds from one participation of a unit to its next; 0: `most_separation` and some smaller
        ones; 1: none can be asked to wait.
    availability : float, default=1.0
        Share of the units that are ready on average.
    what : str, default="clients"
        Plural of the unit.

    Examples
    --------
    >>> found = options(8.0, 1e-5, rounds=30, units=100, taken=100)
    >>> [round(each.error, 2) for each in found if "Renyi" not in each.name]
    [12.94, 12.94]
    """
    most = most_separation(units, taken, availability)
    waits = [min(each, rounds) for each in ([separation] if separation else separations(most)) if each > 1]
    plain = independent(rounds).error()
    every = noise_multiplier_for(epsilon, delta=delta, rounds=rounds)
    secret = f"Poisson sampling of {what}, rate {taken / units:g}, secret"
    found = [Option("no sampling", f"nothing: fixed cohorts, a quorum, {what} in every round", every, every * plain)]
    for name, accountant in ((SAMPLING, "pld"), ("sampling, by Renyi divergences", "rdp")):
        noise = noise_multiplier_for(
            epsilon, delta=delta, rounds=rounds, sampling_rate=taken / units, accountant=cast(Accountant, accountant)
        )
        found.append(Option(name, secret, noise, noise * plain, "rounds.selector=poisson"))
    one = noise_multiplier_for(epsilon, delta=delta, rounds=1)
    for wait, few in [*((wait, 0) for wait in sorted({*waits}, reverse=True)), *((wait, FEW) for wait in waits[:1])]:
        spaced = f"each of the {what} waits {wait} rounds from one participation to its next"
        spaced += ": no slack" if wait * taken > availability * units - taken else ""
        matrix = best_factorization(rounds, wait, few)
        width = one * matrix.sensitivity(wait)
        words = f"correlated noise, {matrix.bands} bands" if matrix.bands > 1 else "independent noise, waiting"
        words += " of the inverse" if isinstance(matrix, InverseBanded) else ""
        setting = f"privacy.separation={wait}" + (f" --set privacy.bands={few}" if few else "")
        found.append(Option(words, spaced, width, width * matrix.error(), setting))
    return sorted(found, key=lambda option: option.error)


def best_factorization(rounds: int, separation: int, most_bands: int = 0) -> Factorization:
    """Return the factorization of least noise among those that a separation allows.

    Parameters
    ----------
    most_bands : int, default=0
        Most bands of the matrix or of its inverse, one more than the rows of noise that are kept; 0: no limit, with
        which banded matrices have less noise than banded inverses.

    Examples
    --------
    >>> found = best_factorization(1000, 50, 4)
    >>> type(found).__name__, found.bands, round(found.sensitivity(50) * found.error(), 2)
    ('InverseBanded', 4, 40.27)
    """
    most = min(separation, rounds, most_bands or rounds)
    tried = sorted({most, *(2**power for power in range(1, most.bit_length()))} - {1}) if most > 1 else []
    ways = (optimal, searched) if rounds <= MOST_SEARCHED else (optimal,)
    found: list[Factorization] = [independent(rounds), *(make(rounds, bands) for bands in tried[-3:] for make in ways)]
    found += [inverse_square_root(rounds, bands) for bands in range(2, min(most_bands, rounds) + 1)]
    return min(found, key=lambda each: math.prod((each.sensitivity(separation), each.error())))
