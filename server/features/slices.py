"""Slices: a client is sent the slice of the state that its device can hold, and reports that slice.

The server alone says which entries they are, by the client's ratio and the round; what a report lacks of the state is
null (`fedlearn.models.slices`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, RecordDict

from fedlearn import wire
from fedlearn.aggregation import STATE, FoldPlan
from fedlearn.config import RunConfig
from fedlearn.core.cohort import Member
from fedlearn.core.state import Update
from fedlearn.models.slices.slicing import SLICE
from server.feature import Feature, Instructions
from server.gate.gate import ReportGate
from server.rules import Asked, Rule
from strategies.base import RoundStrategy
from strategies.slices_of_run import SlicesOfRun, slices_of, slicing_of


def _rolls(asked: Asked) -> bool:
    """Return whether a client has other entries in each round."""
    keep = asked.strategy.slicing.keep  # type: ignore[attr-defined]
    return any((keep(4, 0.5, 1) != keep(4, 0.5, number)).any() for number in (2, 3))


def _levels(asked: Asked) -> list[float]:
    return asked.strategy.slicing.levels  # type: ignore[attr-defined,no-any-return]


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
        "secure.group_size",
        lambda asked: asked.config.is_secure and not asked.config.secure.group_size and len(_levels(asked)) > 1,
        "all clients of a sum send the same entries, and slices of several ratios have others",
        "give it, so that each group has one ratio",
    ),
    Rule(
        "compression.codec", lambda asked: asked.config.is_secure and asked.config.compression.codec != "identity",
        "entries that few slices have would be in no sum", "use 'identity'",
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
        return slicing_of(strategy) is not None

    def instruct(self, instructions: Instructions) -> None:
        """Put the slice of each client in place of the state, and say its ratio."""
        slices, number = _slices(self.config), instructions.at.round_number
        made: dict[float, ArrayRecord] = {}
        for message, member in zip(instructions.messages, instructions.members, strict=True):
            ratio = slices.ratio_of(member.partition_id)
            told: dict[str, float] = {wire.EFFORT: slices.effort_of(ratio)} if self.config.devices.name else {}
            if ratio < 1:
                if ratio not in made:
                    made[ratio] = wire.pack_arrays(slices.of(wire.read_state(message.content), ratio, number))
                message.content[wire.state_key(message.content)] = made[ratio]
                told[SLICE] = ratio
            if told:
                wire.tell(message.content, told)


def _slices(config: RunConfig) -> SlicesOfRun:
    slices = slices_of(config)
    assert slices is not None
    return slices


class SliceGate(ReportGate):
    """Checks each report as a report of its client's slice."""

    def __init__(self, plan: FoldPlan) -> None:
        super().__init__(plan)
        self._slices = _slices(self._config)
        self._of_slices: dict[float, ReportGate] = {}

    def _update(self, content: RecordDict, member: Member, sent: RecordDict) -> tuple[Update, float]:
        ratio, number = self._slices.ratio_of(member.partition_id), self._plan.at.round_number
        if ratio not in self._of_slices:
            parcel = replace(self._plan.parcels[STATE], layout=self._slices.layout(ratio, number))
            self._of_slices[ratio] = ReportGate(replace(self._plan, parcels={STATE: parcel}))
        update, norm = self._of_slices[ratio]._update(content, member, sent)
        is_like_all = (self._slices.ratios == ratio).all()  # else the usual norm of changes says nothing of this one
        return self._slices.back(update, ratio, number), norm if is_like_all else 0.0
