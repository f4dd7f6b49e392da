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
            "How the attackers of a simulation lie, for a study: {names}, or module:Class. Empty: all are honest."
        ),
    )
    attackers: Annotated[float, Field(gt=0, lt=1), Flag("--attackers", "X", Panel.REPORTS), ReadBy.ATTACKS] = Field(
        default=0.2, description="Share of the nodes that lie, rounded down; which ones, the seed says."
    )
    options: Annotated[Options, ReadBy.ATTACKS] = Field(
        default="", description="The attack's own, keyword parameters of its constructor, as z of alie."
    )
