"""Settings of secure sums: what the server learns of reports, and how the nodes hide them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import Positive, Seconds, Settings
from fedlearn.config.marks import Flag, Panel, ReadIf

ON = ("masked", "unmasked")
IF_ON = ReadIf("secure.sums", ON)
IF_MASKED = ReadIf("secure.sums", ("masked",))


class SecureSettings(Settings):
    """Settings of secure sums (Bonawitz et al. 2017, on the sparse graph of Bell et al. 2020)."""

    sums: Annotated[Literal["off", "masked", "unmasked"], Flag("--secure-sums", "WHAT", Panel.REPORTS)] = Field(
        default="off",
        description=(
            "Secure aggregation. masked: the server learns only the sum of the changes of a round's clients, and "
            "nothing about one of them. unmasked: the same fixed-point sum, same bytes, without masks: protects "
            "nobody, for simulations. off: the server sees each update."
        ),
    )
    clip: Annotated[Positive, IF_ON] = Field(
        default=1.0, description="Largest absolute change of an entry; a larger change is clipped to it."
    )
    bits: Annotated[int, Field(ge=2, le=24), IF_ON] = Field(
        default=16,
        description="Bits of an entry: a change is rounded at random to one of 2^bits steps within secure.clip.",
    )
    weights: Annotated[Literal["uniform", "coarse"], IF_ON] = Field(
        default="uniform",
        description=(
            "Weight of a client in the mean. uniform: one. coarse: its number of examples over "
            "secure.weight_unit, rounded to a power of two from 1 to 64; the server learns the sum of the "
            "weights."
        ),
    )
    weight_unit: Annotated[int, Field(ge=1), ReadIf("secure.weights", ("coarse",))] = Field(
        default=100, description="coarse: number of examples of a client that weighs one."
    )
    metric_clip: Annotated[Positive, IF_ON] = Field(
        default=10.0, description="Largest value of a metric of a client; a larger one is clipped to it."
    )
    colluders: Annotated[int, Field(ge=0), IF_MASKED] = Field(
        default=0, description="c: number of clients of a cohort that may tell the server all that they know."
    )
    dropouts: Annotated[float, Field(ge=0, lt=1), IF_MASKED] = Field(
        default=0.1, description="Share of a cohort that may vanish after the exchange of keys."
    )
    security: Annotated[int, Field(ge=10, le=100), IF_MASKED] = Field(
        default=40,
        description=(
            "s: neighbors and threshold are the smallest with which the server and its colluders read an update "
            "with a probability of at most 2^-s; settings that no graph satisfies are refused."
        ),
    )
    group_size: Annotated[int, Field(ge=0), IF_ON] = Field(
        default=0,
        description=(
            "g: divide the cohort at random into groups of g clients, or a few more, which mask one another and "
            "drop the same entries; the server learns the sum of each group. From 3; 0 for one graph of the whole "
            "cohort."
        ),
    )
    coverage: Annotated[float, Field(ge=0, lt=1), IF_ON] = Field(
        default=0.0,
        description=(
            "Minimum expected share of the entries that at least one group of a full cohort sends: 1 - (1 - p "
            "s)^(n/g), with keep ratio p and groups that stand with a probability s; with a defence 2 f + 1 "
            "groups must send an entry. Below it the run is refused."
        ),
    )
    patience: Annotated[Seconds, IF_ON] = Field(
        default=60.0, description="Seconds that clients have for each exchange of keys, signatures and shares."
    )
