"""Settings of attacks: nodes of a simulation that lie, for a study."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedlearn.config.fields import Options, Settings
from fedlearn.config.marks import Flag, Panel, ReadBy


class AttackSettings(Settings):
    """Settings of an attack on the run by its own nodes."""

    name: Annotated[str, Flag("--attack", "NAME", Panel.REPORTS)] = Field(
        default="",
        description=(
            "Attack by some clients of a simulation, for a study: {names}, or module:Class. Empty: all are honest."
        ),
    )
    attackers: Annotated[float, Field(gt=0, lt=1), Flag("--attackers", "X", Panel.REPORTS), ReadBy.ATTACKS] = Field(
        default=0.2, description="Share of the clients that attack, rounded down; the seed draws them."
    )
    options: Annotated[Options, ReadBy.ATTACKS] = Field(
        default="", description="Keyword parameters of the attack's constructor, such as z of alie."
    )
