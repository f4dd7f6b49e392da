"""Slices: a client is sent the slice of the state that its device can hold, and reports that slice.

The server alone says which entries they are, by the client's ratio and the round; what a report lacks of the state is
null (`fedlearn.models.slices`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, RecordDict
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.aggregation import STATE, FoldPlan
from fedlearn.config import RunConfig, per_run
from fedlearn.core.cohort import Member
from fedlearn.core.state import Update, layout_of
from fedlearn.models.loaded import loaded
from fedlearn.models.slices.slicing import SLICE, Slices, Slicing
from server.feature import Feature, Instructions
from server.gate.gate import ReportGate
from server.rules import Asked, Rule
from strategies import load_strategy
from strategies.base import RoundStrategy


def _rolls(asked: Asked) -> bool:
    """Return whether a client has other entries in each round."""
    keep = asked.strategy.slicing.keep  # type: ignore[attr-defined]
    return any((keep(4, 0.5, 1) != keep(4, 0.5, number)).any() for number in (2, 3))


RULES = (
    Rule(
        "compression.downlink", lambda asked: asked.config.compression.downlink != "identity",
        "a client is sent its slice of the state, as it is", "use 'identity'",
    ),
    Rule(
        "privacy.protects", lambda asked: asked.config.privacy.protects,
        "noise would have to hide which entries a slice has", "leave it out, or use strategy.name = 'fedavg'",
    ),
    Rule(
        "evaluation.nodes", lambda asked: asked.config.evaluation.nodes,
        "a client is sent no whole state that it could measure while it trains", "leave it at 0",
    ),
    Rule(
        "training.send", lambda asked: asked.config.training.send,
        "slices are of the whole module", "leave it out",
    ),
    Rule(
        "training.personal", lambda asked: asked.config.training.personal and _rolls(asked),
        "the slice of a client is another one in each round, and its own layers are not", "use 'heterofl' or 'fjord'",
    ),
)  # fmt: skip


class SlicedClients(Feature):
    """Sends each client its slice, and reads reports as slices."""

    rules = RULES

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the strategy slices."""
        return isinstance(getattr(strategy, "slicing", None), Slicing)

    def instruct(self, instructions: Instructions) -> None:
        """Put the slice of each client in place of the state, and say its ratio."""
        slices, number = slices_of(self.config), instructions.at.round_number
        made: dict[float, ArrayRecord] = {}
        for message, member in zip(instructions.messages, instructions.members, strict=True):
            ratio = slices.ratio_of(member)
            if ratio == 1:
                continue
            if ratio not in made:
                made[ratio] = wire.pack_arrays(slices.of(wire.read_state(message.content), ratio, number))
            message.content[wire.state_key(message.content)] = made[ratio]
            wire.tell(message.content, {SLICE: ratio})


class SlicesOfRun(Slices):
    """The slices of the clients of a run."""

    ratios: NDArray[Any]  # by partition

    def ratio_of(self, member: Member) -> float:
        """Return the ratio of a client."""
        return float(self.ratios[member.partition_id])


@per_run
def slices_of(config: RunConfig) -> SlicesOfRun:
    """Return the slices of a run."""
    from fedlearn.models.slices.tracing import sliced_module

    dataset, model = loaded(config)
    slicing: Slicing = load_strategy(config.strategy).slicing  # type: ignore[attr-defined]
    axes = sliced_module(model, config.model.name, slicing.rule).axes  # type: ignore[arg-type]
    slices = SlicesOfRun(slicing.keep, axes, layout_of(model.initial_state(seed=config.seed)))
    slices.ratios = slicing.by_client(config, dataset)
    return slices


class SliceGate(ReportGate):
    """Checks each report as a report of its client's slice."""

    def __init__(self, plan: FoldPlan) -> None:
        super().__init__(plan)
        self._slices = slices_of(self._config)
        self._of_slices: dict[float, ReportGate] = {}

    def _update(self, content: RecordDict, member: Member, sent: RecordDict) -> tuple[Update, float]:
        ratio, number = self._slices.ratio_of(member), self._plan.at.round_number
        if ratio not in self._of_slices:
            parcel = replace(self._plan.parcels[STATE], layout=self._slices.layout(ratio, number))
            self._of_slices[ratio] = ReportGate(replace(self._plan, parcels={STATE: parcel}))
        update, norm = self._of_slices[ratio]._update(content, member, sent)
        is_like_all = (self._slices.ratios == ratio).all()  # else the usual norm of changes says nothing of this one
        return self._slices.back(update, ratio, number), norm if is_like_all else 0.0
