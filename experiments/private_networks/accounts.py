"""Noise multipliers of thirteen promises, by each account, beside those of dp-accounting's own search.

    python -m experiments.private_networks.accounts               # ours
    python -m experiments.private_networks.accounts --theirs      # and dp-accounting's calibrate_dp_mechanism: minutes

A row is a promise (epsilon, delta) over rounds with Poisson sampling of units, add or remove one. "None" claims no
amplification by sampling.
"""

from __future__ import annotations

import sys
import time

from fedlearn.privacy.accounts import noise_multiplier_for

ROWS = (
    (2.0, 1e-6, 1e-3, 1500), (2.0, 1e-6, 1e-3, 3000), (8.0, 1e-6, 1e-3, 1500), (1.0, 1e-5, 0.01, 100),
    (2.0, 1e-5, 0.01, 1000), (2.0, 1e-5, 0.05, 300), (8.0, 1e-5, 0.05, 300), (8.0, 1e-5, 0.2, 30), (2.0, 1e-5, 0.2, 30),
    (4.0, 1e-5, 0.02, 500), (2.0, 1e-8, 1e-4, 100), (1.0, 1e-5, 1.0, 1), (1.0, 1e-5, 1.0, 30),
)  # fmt: skip


def theirs(epsilon: float, delta: float, rate: float, rounds: int, start: float) -> float:
    """Return the noise multiplier that dp-accounting finds by loss distributions, to 1e-4, near a first guess."""
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    def event(noise: float) -> dpa.DpEvent:
        gaussian = dpa.GaussianDpEvent(noise)
        return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(rate, gaussian) if rate < 1 else gaussian, rounds)

    bracket = dpa.ExplicitBracketInterval(0.9 * start, 1.1 * start)
    found = dpa.calibrate_dp_mechanism(PLDAccountant, event, epsilon, delta, bracket_interval=bracket, tol=1e-4)
    return float(found)


def main() -> None:
    """Print a line for each promise."""
    is_compared = "--theirs" in sys.argv[1:]
    print(
        "epsilon   delta    rate  rounds       PLD   Renyi      none   CPU s"
        + ("   dp-accounting" if is_compared else "")
    )
    for epsilon, delta, rate, rounds in ROWS:
        start = time.process_time()
        tight = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=rate)
        seconds = time.process_time() - start
        loose = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=rate, accountant="rdp")
        none = noise_multiplier_for(epsilon, delta=delta, rounds=rounds)
        more = f"{theirs(epsilon, delta, rate, rounds, tight):16.4f}" if is_compared else ""
        line = (
            f"{epsilon:7g} {delta:7g} {rate:7g} {rounds:7d} {tight:9.4f} {loose:7.4f} {none:9.4f} {seconds:7.2f}{more}"
        )
        print(line, flush=True)


if __name__ == "__main__":
    main()
