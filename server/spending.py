"""What a run has cost the nodes' records: by all that has come from them, committed or not."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.config import RunConfig
from fedlearn.runs.log import EventTail

if TYPE_CHECKING:
    from fedlearn.privacy import PrivacySpent

CAME = ("reported", "refused", "late-report-refused")  # a node has published something


def promised(config: RunConfig) -> PrivacySpent:
    """Return the most that a record of any node loses in a run."""
    from fedlearn.privacy import largest_loss

    return largest_loss(config.privacy.epsilon, config.privacy)


def spent_by_partition(events: Path, loss: str, *, most: float) -> dict[int, float]:
    """Return partition -> what its node has spent, of all nodes from which a report has come, in whatever attempt.

    It is what a node says it has spent, in the metric `loss`; where nothing is believed of its report, `most`.
    """
    spent: dict[int, float] = {}
    with suppress(OSError):
        for event in EventTail(events).read():
            partition, said = event.get("partition"), event.get(loss, most)
            if event["event"] in CAME and event.get("bytes") and isinstance(partition, int):
                value = said if isinstance(said, int | float) and isfinite(said) else most
                spent[partition] = max(spent.get(partition, 0.0), float(value))
    return spent
