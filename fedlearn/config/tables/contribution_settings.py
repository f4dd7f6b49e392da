"""Settings of contributions: what is stored to say what each client is worth."""

from __future__ import annotations

from pydantic import Field

from fedlearn.config.fields import Settings


class ContributionSettings(Settings):
    """Settings of contributions."""

    keep: bool = Field(
        default=False,
        description=(
            "Store each client's change of each round in the run folder, from which fedlearn worth rebuilds the models "
            "of coalitions; each change takes the size of the model."
        ),
    )
