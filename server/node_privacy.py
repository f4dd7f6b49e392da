"""Node-level privacy: noise on the sum of a round, its account, and what a run that protects nodes can have.

What is released of a committed round is sum + noise, divided by the expected number of nodes; everything else that the
strategy, the model and the page make of it is post-processing. Every committed round is one release and is paid, also
one without any report. An attempt that is abandoned or killed releases nothing, so it costs nothing; another attempt
draws other noise.

Source: McMahan et al. 2018 (arXiv:1710.06963), algorithm 1, with the estimator f_f.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedlearn.config import RunConfig
from fedlearn.privacy.clipping import SLACK
from fedlearn.privacy.mechanisms import gaussian
from fedlearn.privacy.noise import Noise
from fedlearn.words.errors import SettingError
from fedlearn.words.metric import EPSILON, Measured, Metric
from fedlearn.words.state import Array, State, layout_of
from strategies.base import RoundStrategy
from strategies.masked_mean import Float64, MaskedSum

NOISE = "privacy/noise_multiplier"  # what the run's checkpoint calls it, beside the strategy's memory
SIGNAL = Metric(
    "signal_to_noise", "signal to noise", note="L2 norm of the sum / that of its noise, estimated from their sum", low=0
)
Memory = Mapping[str, Array]


class NodePrivacy:
    """The noise of a run that protects nodes, and what its rounds have spent.

    Parameters
    ----------
    config
        The run's settings; `memory` is that of its checkpoint, empty at first.

    Raises
    ------
    SettingError
        If delta is missing, or the rounds cost more than the budget: nothing is sent then.
    """

    def __init__(self, config: RunConfig, memory: Memory) -> None:
        from fedlearn.privacy.nodes import NodePlan

        plan = NodePlan.of(config)
        begun = float(memory[NOISE]) if NOISE in memory else plan.noise_multiplier
        self.plan = plan.keeping(begun)
        self.plan.check()
        self._spent = self.plan.spent_by_round()

    @classmethod
    def of(cls, config: RunConfig, memory: Memory) -> NodePrivacy | None:
        """Return the noise of a run; None of a run that protects no nodes, or whose nodes add their own."""
        if config.nodes_add_noise and NOISE in memory:
            why = "the run was begun with noise that the server adds: begin another run"
            raise SettingError("privacy.trust", config.privacy.trust, why)
        return cls(config, memory) if config.protects_nodes and not config.nodes_add_noise else None

    def memory(self) -> dict[str, Array]:
        """Return the arrays of the checkpoint: the noise that the run began with."""
        return {NOISE: np.array(self.plan.noise_multiplier)}

    def released(self, total: MaskedSum, noise: Noise) -> MaskedSum:
        """Return the noisy sum as if the expected number of nodes had sent it, whoever came.

        All parameters are one vector: entries that no node sent get noise, too.
        """
        names, plan = list(total.layout), self.plan
        exact = np.concatenate([_summed(total, name) for name in names]) if names else np.zeros(0)
        noisy = gaussian(exact, clip=plan.clip * (1 + SLACK), noise_multiplier=plan.noise_multiplier, noise=noise)
        parts = np.split(noisy, np.cumsum([total.layout[name].size for name in names])[:-1])
        expected = float(plan.expected)
        released = MaskedSum(
            total.layout, dict(zip(names, parts, strict=True)), {name: np.array([expected]) for name in names}
        )
        released.reports = np.full(2, expected)
        return released

    def measured(self, released: MaskedSum, round_number: int) -> Measured:
        """Return what a round has spent so far, and how its sum stands out of the noise; of the release alone."""
        size = sum(spec.size for spec in released.layout.values())
        noise = size * (self.plan.noise_multiplier * self.plan.clip) ** 2
        square = math.fsum(float(np.square(part).sum()) for part in released.totals.values())
        signal = math.sqrt(max(square / noise - 1, 0.0)) if noise else None
        return {EPSILON.name: self._spent[round_number - 1], SIGNAL.name: signal}

    def summary(self, rounds: int, *, is_seeded: bool) -> dict[str, Any]:
        """Return what summary.json says after so many committed rounds: the promise, its parts, and it in words."""
        plan, spent = self.plan, self._spent[rounds - 1] if rounds else 0.0
        promise = replace(plan.guarantee, epsilon=spent)
        return {
            **{name: value for name, value in promise.to_dict().items() if name not in ("words", "relation")},
            "neighboring": promise.relation.value.replace("record", promise.unit.value),
            "noise": "seeded" if is_seeded else "secure",
            "noise_multiplier": plan.noise_multiplier,
            "clip": plan.clip,
            "protects": self.in_words(rounds),
        }

    def in_words(self, rounds: int) -> str:
        """Return what the run protects after so many rounds, and against whom."""
        plan = self.plan
        promise = replace(plan.guarantee, epsilon=self._spent[rounds - 1] if rounds else 0.0)
        moved = f"; where another node is drawn in its place, epsilon {plan.replaced(rounds):.2f}" if rounds else ""
        return (
            f"whether one node took part, with all its records, against everybody who sees the models and not the "
            f"server's own files: {promise}{moved if plan.sampling_rate == 1 else ''}; the server sees each node's "
            "change and is not protected against"
        )


def columns_of(config: RunConfig) -> tuple[Metric, ...]:
    """Return the columns that the table of rounds has of noise on sums of nodes; none of any other run."""
    if not config.protects_nodes or config.nodes_add_noise:
        return ()
    from fedlearn.privacy.nodes import NodePlan

    plan = NodePlan.of(config)
    plan.check()
    words = str(plan.guarantee).partition("; ")[2]
    return (replace(EPSILON, note=f"spent; delta {plan.delta:g}; {words}", high=plan.epsilon), SIGNAL)


def rest_of_noise(memory: Memory) -> dict[str, Array]:
    """Return the arrays of a checkpoint that are not those of `NodePrivacy`."""
    return {name: array for name, array in memory.items() if name != NOISE}


def _summed(total: MaskedSum, name: str) -> Float64:
    found = total.totals.get(name)
    return np.zeros(total.layout[name].size) if found is None else found


def check_arrays(config: RunConfig, strategy: RoundStrategy[Any], state: State) -> None:
    """Refuse a state with whole numbers, for which neither clipping nor noise is made, and answers beside the state.

    Refuse a grid of distributed noise that is too coarse for so many entries.
    """
    if config.protects_nodes and (asked := list(strategy.answers(state))):
        raise SettingError(
            "strategy.name", config.strategy.name,
            f"it asks nodes for {', '.join(asked)} beside the state, which would leave without noise: use 'fedavg'",
        )  # fmt: skip
    names = [name for name, array in state.items() if array.dtype.kind != "f"]
    if config.protects_nodes and names:
        raise SettingError(
            "privacy.protects", "nodes",
            f"parameter {names[0]!r} holds whole numbers, which would leave without noise: take layers without such "
            "buffers, as GroupNorm in place of BatchNorm",
        )  # fmt: skip
    if config.nodes_add_noise and config.privacy.trust == "distributed":
        from fedlearn.secure.noisy import NoisyChanges

        NoisyChanges.of(config, layout_of(state))
