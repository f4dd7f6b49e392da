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

from fedlearn.aggregation.fold_plan import STATE
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import EPSILON, Measured, Metric
from fedlearn.core.state import Array, State, layout_of
from fedlearn.privacy.adaptive_clip import WITHIN
from fedlearn.privacy.clipping import SLACK
from fedlearn.privacy.mechanisms import gaussian
from fedlearn.privacy.noise import Noise
from fedlearn.wire import CLIP
from server.features.privacy.round_clip import RoundClip
from strategies.base import RoundStrategy
from strategies.masked_mean import Float64, MaskedSum

OURS = "privacy/"  # begins the names of arrays in the run's checkpoint, beside the strategy's memory
NOISE = f"{OURS}noise_multiplier"
SIGNAL = Metric(
    "signal_to_noise", "signal to noise", note="L2 norm of the sum / that of its noise, estimated from their sum", low=0
)
CLIP_NORM = Metric("clip", "clipping norm", note="of the round; follows a quantile of the norms", low=0)
SHARE_WITHIN = Metric(
    "within_clip", "changes within the clipping norm", note="share of the expected clients, with noise"
)
AS_IF = Metric("epsilon_as_if", "epsilon of the population", low=0)
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
        from fedlearn.privacy.node_costs import NodePlan
        from server.features.privacy.correlated import CorrelatedRows, matrix_in

        plan = NodePlan.of(config)
        begun = float(memory[NOISE]) if NOISE in memory else plan.noise_multiplier
        self.plan = plan.keeping(begun, matrix_in(memory))
        self.plan.check()
        self._spent = self.plan.spent_by_round()
        study = self.plan.study
        self._as_if = study.epsilons(self.plan.noise_multiplier, plan.rounds, plan.delta) if study else []
        self._rows = CorrelatedRows.of(self.plan, memory)
        self._clip = RoundClip.of_run(config, self.plan, memory)
        self._within = 0.0

    @classmethod
    def of(cls, config: RunConfig, memory: Memory) -> NodePrivacy | None:
        """Return the noise of a run; None of a run that protects no nodes, or whose nodes add their own."""
        if config.nodes_add_noise and NOISE in memory:
            why = "the run was begun with noise that the server adds: begin another run"
            raise SettingError("privacy.trust", config.privacy.trust, why)
        return cls(config, memory) if config.protects_nodes and not config.nodes_add_noise else None

    def memory(self) -> dict[str, Array]:
        """Return the arrays of the checkpoint: the noise that the run began with, and what later noise depends on."""
        kept: dict[str, Array] = {NOISE: np.array(self.plan.noise_multiplier)}
        for each in (self._rows, self._clip):
            kept |= {} if each is None else each.memory()
        return kept

    def told(self, round_number: int) -> dict[str, float]:
        """Return what nodes are told of a round: its clipping norm, if that changes."""
        return {} if self._clip is None else {CLIP: self._clip.of(round_number)}

    def released(self, sums: Mapping[str, MaskedSum], noise: Noise, round_number: int) -> MaskedSum:
        """Return the noisy sum as if the expected number of nodes had sent it, whoever came.

        All parameters are one vector: entries that no node sent get noise, too.
        """
        total, plan = sums[STATE], self.plan
        names = list(total.layout)
        exact = np.concatenate([_summed(total, name) for name in names]) if names else np.zeros(0)
        if self._rows is not None:
            noisy = self._rows.added(exact, noise, round_number)
        elif self._clip is not None:
            vector = self._clip.joined(exact, sums[WITHIN], round_number)
            answer = gaussian(vector, clip=1 + SLACK, noise_multiplier=plan.noise_multiplier, noise=noise)
            noisy, self._within = self._clip.parted(answer, round_number)
        else:
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
        noise = size * self._deviation(round_number) ** 2
        square = math.fsum(float(np.square(part).sum()) for part in released.totals.values())
        signal = math.sqrt(max(square / noise - 1, 0.0)) if noise else None
        found: dict[str, float | None] = {EPSILON.name: self._spent[round_number - 1], SIGNAL.name: signal}
        if self._clip is not None:
            found |= {CLIP_NORM.name: self._clip.of(round_number), SHARE_WITHIN.name: self._within}
        if self.plan.study is not None:
            found[AS_IF.name] = self._as_if[round_number - 1]
        return found

    def _deviation(self, round_number: int) -> float:
        """Return the standard deviation of the noise in a round's sum."""
        if self._rows is not None:
            return self._rows.deviation(round_number)
        if self._clip is not None:
            return self.plan.noise_multiplier * self._clip.of(round_number) * self._clip.steps.growth
        return self.plan.noise_multiplier * self.plan.clip

    def summary(self, rounds: int, *, is_seeded: bool) -> dict[str, Any]:
        """Return what summary.json says after so many committed rounds: the promise, its parts, and it in words."""
        plan, spent = self.plan, self._spent[rounds - 1] if rounds else 0.0
        promise = replace(plan.guarantee, epsilon=spent)
        return {
            **{name: value for name, value in promise.to_dict().items() if name not in ("words", "relation")},
            "neighboring": promise.relation.value.replace("record", promise.unit.word),
            "noise": "seeded" if is_seeded else "secure",
            "noise_multiplier": plan.noise_multiplier,
            "clip": plan.clip if self._clip is None else self._clip.of(rounds + 1),
            **({} if plan.study is None else {"as_if": self._of_study(rounds)}),
            **({} if plan.correlation is None else {"separation": plan.separation, "bands": plan.correlation.bands}),
            "protects": self.in_words(rounds),
        }

    def _of_study(self, rounds: int) -> dict[str, Any]:
        """Return the population's promise after so many rounds, which never stands without that of these nodes."""
        study, plan = self.plan.study, self.plan
        assert study is not None
        promise = study.guarantee(self._as_if[rounds - 1] if rounds else 0.0, plan.delta, plan.guarantee.trust)
        return {"population": study.nodes, "cohort": study.cohort, EPSILON.name: promise.epsilon, "words": str(promise)}

    def in_words(self, rounds: int) -> str:
        """Return what the run protects after so many rounds, and against whom."""
        plan = self.plan
        if plan.study is not None:
            here = replace(plan.guarantee, epsilon=self._spent[rounds - 1] if rounds else 0.0)
            return f"a study, {plan.study}: {self._of_study(rounds)['words']}; for these {plan.clients} clients: {here}"
        promise = replace(plan.guarantee, epsilon=self._spent[rounds - 1] if rounds else 0.0)
        moved = f"; where another client is drawn in its place, epsilon {plan.replaced(rounds):.2f}" if rounds else ""
        return (
            f"whether one client took part, with all its records, against everybody who sees the models and not the "
            f"server's own files: {promise}{moved if plan.sampling_rate == 1 else ''}; the server sees each client's "
            "change and is not protected against"
        )


def columns_of(config: RunConfig) -> tuple[Metric, ...]:
    """Return the columns that the table of rounds has of noise on sums of nodes; none of any other run."""
    if not config.protects_nodes or config.nodes_add_noise:
        return ()
    from fedlearn.privacy.node_costs import NodePlan

    plan = NodePlan.of(config)
    plan.check()
    words = str(plan.guarantee).partition("; ")[2]
    spent = f"spent; delta {plan.delta:g}; {words}"
    of_clip = (CLIP_NORM, SHARE_WITHIN) if config.adapts_clip else ()
    if plan.study is None:
        return (replace(EPSILON, note=spent, high=plan.epsilon), SIGNAL, *of_clip)
    here = plan.spent_after(plan.rounds)
    note = f"{plan.study}; for these {plan.clients} clients: {here:.4g}"
    return (
        replace(EPSILON, note=f"for these {plan.clients} clients; {spent}"),
        replace(AS_IF, note=note, high=plan.epsilon),
        SIGNAL,
        *of_clip,
    )


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
            f"it asks clients for {', '.join(asked)} beside the state, which would leave without noise: use 'fedavg'",
        )  # fmt: skip
    names = [name for name, array in state.items() if array.dtype.kind != "f"]
    if config.protects_nodes and names and not strategy.clips:
        raise SettingError(
            "privacy.protects", "nodes",
            f"parameter {names[0]!r} holds whole numbers, which would leave without noise: take layers without such "
            "buffers, as GroupNorm in place of BatchNorm",
        )  # fmt: skip
    if config.nodes_add_noise and config.privacy.trust == "distributed":
        from fedlearn.secure.noisy import NoisyChanges

        NoisyChanges.of(config, layout_of(state))
