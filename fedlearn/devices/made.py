"""Fleets that are drawn from published distributions; the sources stand beside the numbers.

Node i gets the i-th number of each stream, so that a node's device does not depend on the number of nodes.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config.fields import NonNegative, Positive
from fedlearn.core.seeding import rng_for
from fedlearn.devices.fleet import Fleet, Floats

Probability = Annotated[float, Field(ge=0, le=1)]
Hour = Annotated[float, Field(ge=0, le=24)]
Correlation = Annotated[float, Field(ge=-1, le=1)]
Real = Annotated[float, Field(allow_inf_nan=False)]

SPEEDS = ("fast", "middle", "slow")
THIRD = 0.4307272992954576  # a third of a normal distribution lies above


def phones(
    *,
    clients: int,
    seed: int,
    examples: NDArray[np.int64],
    seconds: Positive = 0.005,
    log_mean: Real = 1.0,
    log_sd: NonNegative = 0.6,
    down: Positive = 750e3,
    up: Positive = 250e3,
    link_sd: NonNegative = 0.6,
    startup: NonNegative = 0.0,
    dropout: Probability = 0.08,
    available: Probability = 0.5,
    available_sd: NonNegative = 0.1,
    swing: Probability = 0.6,
    begins_at: Hour = 0.0,
    slow_with_data: Correlation = 0.0,
) -> Fleet:
    """Return phones of three kinds: the fast, middle and slow third of the speeds.

    Parameters
    ----------
    seconds, log_mean, log_sd
        An example takes ``seconds * lognormal(log_mean, log_sd)``: FedScale (`client_metadata.py`,
        `get_completion_time_lognormal`), 5 ms and (1, 0.6), the median 13.6 ms.
    down, up
        Medians in bytes a second, 0.75 and 0.25 MB/s: of the order that Wang et al. 2021, "A field guide to federated
        optimization" (arXiv:2107.06917), assume. Spread by lognormal(0, link_sd), the same factor both ways; a
        spread as wide as that of speeds is our choice.
    startup
        Seconds; there are no published values.
    dropout
        6 to 10 % of devices drop out: Bonawitz et al. 2019 (arXiv:1902.01046), section 9.
    available, swing, available_sd
        Between night and noon the number of devices changes by a factor of four (Bonawitz, section 9): (1 + 0.6) / (1 -
        0.6). Half of the time in the mean is our choice; nodes differ by lognormal(0, available_sd), as in FLGo's mode
        "SLN", which has a daily sine of 0.8.
    begins_at
        The hour of the day.
    slow_with_data
        Correlation between how slow a device is and how many examples it has, both as normal scores; -1 to 1.
    """
    link = rng_for(seed, purpose="devices/link").normal(size=clients)
    score = rng_for(seed, purpose="devices/speed").normal(size=clients)
    if slow_with_data:
        score = slow_with_data * normal_scores(examples) + math.sqrt(1 - slow_with_data**2) * score
    often = rng_for(seed, purpose="devices/available").normal(size=clients)
    return Fleet.of(
        clients,
        seed,
        seconds_per_example=seconds * np.exp(log_mean + log_sd * score),
        down=down * np.exp(link_sd * link),
        up=up * np.exp(link_sd * link),
        startup=startup,
        dropout=dropout,
        available=np.minimum(available * np.exp(available_sd * often), 1.0),
        swing=swing,
        group=np.searchsorted([-THIRD, THIRD], score),
        groups=SPEEDS,
        begins_at=begins_at,
    )


def half_normal(
    *, clients: int, seed: int, examples: NDArray[np.int64], seconds: NonNegative = 1.0, dropout: Probability = 0.0
) -> Fleet:
    """Return devices whose training takes ``seconds * |N(0, 1)|``, whatever the examples; links take no time.

    The durations are those of FedBuff's experiments: Nguyen et al. 2022 (arXiv:2106.06639), section 5. There each
    duration is drawn anew; here a node keeps its own, so that slow nodes stay slow.
    """
    trip = seconds * np.abs(rng_for(seed, purpose="devices/trip").normal(size=clients))
    return Fleet.of(clients, seed, startup=trip, dropout=dropout)


def alike(
    *,
    clients: int,
    seed: int,
    examples: NDArray[np.int64],
    seconds: NonNegative = 0.0136,
    down: Positive = 750e3,
    up: Positive = 250e3,
    startup: NonNegative = 0.0,
    dropout: Probability = 0.0,
    available: Probability = 1.0,
) -> Fleet:
    """Return devices that are all the same: the medians of `phones`, and always reachable."""
    return Fleet.of(
        clients, seed, seconds_per_example=seconds, down=down, up=up, startup=startup, dropout=dropout,
        available=available,
    )  # fmt: skip


def normal_scores(values: NDArray[np.int64]) -> Floats:
    """Return the normal quantile of each value's rank; equal values are ranked in their order.

    >>> normal_scores(np.array([10, 30, 20])).round(2).tolist()
    [-0.67, 0.67, 0.0]
    """
    from scipy.special import ndtri

    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(1, len(values) + 1)
    scores: Floats = ndtri(ranks / (len(values) + 1))
    return scores
