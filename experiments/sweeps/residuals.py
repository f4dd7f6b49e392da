"""Compare biased codecs with and without a residual over many rounds, on even and on skewed labels.

    FEDLEARN_DATA=... python -m experiments.sweeps.residuals --quick

A residual can only pay where nodes return: here each does so every five rounds of 100. ``configs/residuals.toml`` has
the settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.sweeps.command import experiment
from experiments.sweeps.skew import draw


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("residuals", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
