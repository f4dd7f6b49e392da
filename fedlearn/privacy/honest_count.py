"""Among how many nodes the noise of a sum is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedlearn.core.errors import SettingError

if TYPE_CHECKING:
    from fedlearn.config import RunConfig


def honest_shares(config: RunConfig) -> int:
    """Return among how many reports distributed noise is divided: the fewest of a sum, without those of colluders.

    Raises
    ------
    SettingError
        If no share is left.
    """
    colluders = config.secure.colluders if config.is_secure else 0
    if colluders >= config.fewest_reports:
        raise SettingError(
            "secure.colluders", colluders,
            f"a round may have {config.fewest_reports} reports, and no noise is left without the shares of colluders: "
            "use fewer colluders, a larger quorum, or larger cohorts",
        )  # fmt: skip
    return config.fewest_reports - colluders
