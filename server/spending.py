"""What a run has cost the nodes' records: by all that has come from them, committed or not."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.config import RunConfig
from fedlearn.models import model_spec
from fedlearn.runs.log import EventTail

if TYPE_CHECKING:
    from fedlearn.privacy import PrivacySpent

LOCAL, DISTRIBUTED = "local noise", "distributed noise"
CAME = ("reported", "refused", "late-report-refused")  # a node has published something


def promised(config: RunConfig) -> PrivacySpent:
    """Return the most that a record of any node loses in a run."""
    from fedlearn.privacy import largest_loss

    return largest_loss(config.privacy.epsilon, config.privacy)


def trust_of(config: RunConfig) -> str:
    """Return whose noise protects a record, in words; empty of models whose nodes send no sums."""
    if not model_spec(config.model.name).sums:
        return ""
    return DISTRIBUTED if config.privacy.trust == "distributed" else LOCAL


def counted_in(config: RunConfig) -> str:
    """Return what an epsilon of this run counts in: between which data sets, and whose noise it is."""
    return "; ".join(filter(None, [promised(config).relation.value, trust_of(config)]))


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
