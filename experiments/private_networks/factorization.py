"""Errors of correlated noise: closed form, Toeplitz optimum, banded inverse, search; and beside Poisson sampling.

    python -m experiments.private_networks.factorization

First the error of prefix sums relative to independent noise of the same promise, one participation. Then, at (8, 1e-5)
and 30 rounds, relative to Poisson sampling at its tight account, by the separation that nodes keep.
"""

from __future__ import annotations

from fedlearn.privacy.accounts import noise_multiplier_for
from fedlearn.privacy.factorization import independent, inverse_square_root, optimal, searched, square_root
from fedlearn.privacy.factorization.inverse_banded import Factorization

PFL = {(100, 16): 0.482}  # pfl-research 0.6.0, its FTRLMatrixFactorizer with a mask of 16 bands
EPSILON, DELTA, ROUNDS = 8.0, 1e-5, 30


def ratio(matrix: Factorization) -> float:
    """Return the error relative to independent noise, where a unit takes part once."""
    return matrix.sensitivity(matrix.rounds) * matrix.error() / independent(matrix.rounds).error()


def by_bands() -> None:
    """Print a line for each number of rounds and bands."""
    print("rounds bands  closed form  Toeplitz   inverse  searched  Toeplitz / pfl")
    for rounds in (100, 200, 500, 1000, 2000, 3000):
        for bands in (4, 16, 64, rounds):
            ours = ratio(optimal(rounds, bands))
            best = f"{ratio(searched(rounds, bands)):9.4f}" if rounds <= 200 and bands < rounds else " " * 9
            inverse = ratio(inverse_square_root(rounds, bands))
            beside = f"{ours / PFL[rounds, bands]:16.3f}" if (rounds, bands) in PFL else ""
            print(
                f"{rounds:6d} {bands:5d} {ratio(square_root(rounds, bands)):12.4f} {ours:9.4f} {inverse:9.4f} "
                f"{best}{beside}",
                flush=True,
            )


def by_separation(nodes: int, cohort: int, separations: tuple[int, ...]) -> None:
    """Print a line for each separation: all three relative to sampling."""
    one = noise_multiplier_for(EPSILON, delta=DELTA, rounds=1)
    rate = cohort / nodes
    sampled = (
        noise_multiplier_for(EPSILON, delta=DELTA, rounds=ROUNDS, sampling_rate=rate) * independent(ROUNDS).error()
    )
    print(f"{nodes} nodes, {cohort} a round, {ROUNDS} rounds, ({EPSILON:g}, {DELTA:g}); sampling is 1")
    for wait in separations:
        closed, ours, best = (
            one * matrix.sensitivity(wait) * matrix.error() / sampled
            for matrix in (make(ROUNDS, wait) for make in (square_root, optimal, searched))
        )
        print(
            f"separation {wait:2d}, as many bands: closed form {closed:.4f}, Toeplitz {ours:.4f}, searched {best:.4f}",
            flush=True,
        )


def main() -> None:
    """Print both tables."""
    by_bands()
    by_separation(100, 20, (5, 4, 3, 2))
    by_separation(1000, 20, (16,))


if __name__ == "__main__":
    main()
