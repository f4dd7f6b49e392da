"""Mistakes that a node may make when it clips its change and adds noise: what the exact audit of runs must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import client.answer
import client.handlers.selection_handler
import client.owner.participation
import fedlearn.algorithms.scalars.scalar_history as scalar_history
import fedlearn.privacy.local_dp as own
from client.features import local_noise
from client.learners.learner import LocalTask
from client.request import Request
from fedlearn.auditing.bent import BENDS, Bend, Bent
from fedlearn.auditing.planting import Planted, swapped
from fedlearn.config import RunConfig
from fedlearn.core.state import Array, State
from fedlearn.privacy.accounts import GaussianRounds, noise_multiplier_for
from fedlearn.privacy.clipping import clipped
from fedlearn.privacy.local_dp import OwnNoise
from fedlearn.privacy.mechanisms.gaussian_share import whole_steps
from fedlearn.privacy.noise import Noise, seeded_noise

Clip = Callable[[State, float], dict[str, Array]]
VANISH = frozenset({4, 5})


def _one_parameter(change: State, clip: float) -> dict[str, Array]:
    return {**clipped(change, clip), "weight": change["weight"]}


def _no_dimension(change: State, clip: float) -> dict[str, Array]:
    shaped = clipped({name: array for name, array in change.items() if array.ndim}, clip)
    return {name: shaped.get(name, array) for name, array in change.items()}


def _by_parameter(change: State, clip: float) -> dict[str, Array]:
    return {name: clipped({name: array}, clip)[name] for name, array in change.items()}


def _by_examples(change: State, clip: float) -> dict[str, Array]:
    return {name: np.asarray(array * 21) for name, array in clipped(change, clip).items()}


def _unclipped(change: State, clip: float) -> dict[str, Array]:
    return dict(change)


def _clips(how: Clip) -> Callable[[], AbstractContextManager[None]]:
    return partial(swapped, client.answer, clipped=how)


def unclipped() -> AbstractContextManager[None]:
    """Leave the changes of nodes unclipped."""
    return swapped(client.answer, clipped=_unclipped)


def _halved(honest: Callable[..., Any]) -> Callable[..., Any]:
    def added(self: OwnNoise, change: NDArray[np.float64], noise: Noise) -> Any:
        less = OwnNoise(
            self.epsilon, self.delta, self.clip, self.rounds, self.shares, self.reach, given=self.multiplier / 2,
            is_skellam=self.is_skellam,
        )  # fmt: skip
        return honest(less, change, noise)

    return added


def _unclipped_steps(values: NDArray[np.float64], *, clip: float, reach: int) -> NDArray[np.int64]:
    longer = 3 * reach / max(float(np.linalg.norm(values)), clip)
    steps: NDArray[np.int64] = np.rint(values * longer).astype(np.int64)
    return steps


def _each_apart(values: NDArray[np.float64], *, clip: float, reach: int) -> NDArray[np.int64]:
    return np.asarray(np.rint(np.nan_to_num(values).clip(-clip, clip) / clip * reach), np.int64)


def _steps_by_examples(values: NDArray[np.float64], *, clip: float, reach: int) -> NDArray[np.int64]:
    return 21 * whole_steps(values, clip=clip, reach=reach)


def _noise_of_a_node(config: RunConfig, task: LocalTask) -> Noise:
    return seeded_noise(task.partition_id)


def _a_round_less(self: OwnNoise, rounds: int) -> float:
    return _HONEST(self, max(rounds - 1, 1))


_HONEST = OwnNoise.spent_after
_NOISE = local_noise.noise_of


def _multiplier_of_gaussian(epsilon: float, *, delta: float, rounds: int) -> float:
    return noise_multiplier_for(epsilon, delta=delta, rounds=rounds)


def _gaussian(self: OwnNoise) -> GaussianRounds:
    return GaussianRounds(self.multiplier, 1)


@contextmanager
def _accounted_as_gaussian() -> Iterator[None]:
    """Let run and ledgers take Skellam noise for Gaussian noise, which would need less of it."""
    with (
        swapped(own, skellam_multiplier_for=_multiplier_of_gaussian),
        swapped(OwnNoise, mechanism=property(_gaussian)),
    ):
        yield


def _always(request: Request, round_number: int) -> str:
    return ""


@contextmanager
def _impatient() -> Iterator[None]:
    """Let nodes forget how long they are to wait, when they are asked and when they train."""
    with (
        swapped(client.owner.participation, why_not=_always),
        swapped(client.handlers.selection_handler, participation_why_not=_always),
    ):
        yield


def _bent(how: Bend) -> Callable[[], AbstractContextManager[None]]:
    """Return what lets each node's noise make a mistake."""

    def plant() -> AbstractContextManager[None]:
        last: dict[Any, Any] = {}

        def noise_of(config: RunConfig, task: LocalTask) -> Noise:
            return Bent(_NOISE(config, task), how, last, task.partition_id)  # type: ignore[return-value]

        return swapped(local_noise, noise_of=noise_of)

    return plant


def _of_a_pair(config: RunConfig, task: LocalTask) -> Noise:
    pair = replace(task, partition_id=task.partition_id // 2)
    sign = 1 - 2 * (task.partition_id % 2)
    return Bent(_NOISE(config, pair), lambda row, _: sign * row, {})  # type: ignore[return-value]


def _known(config: RunConfig, task: LocalTask) -> Noise:
    return seeded_noise(100 * task.round_number + task.partition_id)


PLANTED = (
    Planted("clip forgotten for one parameter", "central", _clips(_one_parameter)),
    Planted("clip forgotten where there is no dimension", "central", _clips(_no_dimension)),
    Planted("clipped parameter by parameter", "central", _clips(_by_parameter)),
    Planted("weighed by examples", "central", _clips(_by_examples)),
    Planted("half of a share", "distributed", partial(
        swapped, OwnNoise, share_added_to=_halved(OwnNoise.share_added_to))),
    Planted("clip forgotten", "distributed", partial(swapped, own, whole_steps=_unclipped_steps)),
    Planted("noise used again", "distributed", partial(swapped, local_noise, noise_of=_noise_of_a_node)),
    Planted("shares of nodes that do not come", "distributed", partial(
        swapped, own, honest_shares=lambda config: 6), VANISH),
    Planted("half of a share", "skellam", partial(
        swapped, OwnNoise, share_added_to=_halved(OwnNoise.share_added_to))),
    Planted("shares of nodes that do not come", "skellam", partial(
        swapped, own, honest_shares=lambda config: 6), VANISH),
    Planted("accounted as Gaussian noise", "skellam", _accounted_as_gaussian, VANISH),
    Planted("half of the noise", "local", partial(swapped, OwnNoise, added_to=_halved(OwnNoise.added_to))),
    Planted("clip forgotten", "local", partial(swapped, local_noise, clipped=_unclipped)),
    Planted("noise used again", "local", partial(swapped, local_noise, noise_of=_noise_of_a_node)),
    Planted("a round forgotten", "local", partial(swapped, OwnNoise, spent_after=_a_round_less)),
    Planted("clip forgotten", "scalars", partial(swapped, scalar_history, whole_steps=_unclipped_steps)),
    Planted("clipped derivative by derivative", "scalars", partial(swapped, scalar_history, whole_steps=_each_apart)),
    Planted("weighed by examples", "scalars", partial(swapped, scalar_history, whole_steps=_steps_by_examples)),
    Planted("turns closer than the separation", "correlated", _impatient),
    *(Planted(f"{name}", "distributed", _bent(how)) for name, how in BENDS.items()),
    Planted("the last noise taken away", "local", _bent(BENDS["the last noise taken away"])),
    Planted("noise of two nodes that adds up to none", "local", partial(swapped, local_noise, noise_of=_of_a_pair)),
    Planted("secure noise from a seed", "secure shares", partial(swapped, local_noise, noise_of=_known)),
)  # fmt: skip
"""Mistakes, each with the row of the audit that must find it."""
