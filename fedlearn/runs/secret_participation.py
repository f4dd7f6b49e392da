"""Who took part in a run whose draw of nodes is secret: what tells it stays in events.jsonl, metrics.csv and nodes.csv.

Poisson sampling amplifies only while nobody but the server knows who took part. The number of nodes in a round, their
bytes and their failures tell of single nodes, so the summary, the page and the listeners of such a run have none, and
do not say why it has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.core.cohort import Fate

COUNTS = ("ready", "cohort", "attempts", "attempt", "uploads", *Fate)
OF_BYTES = ("bytes_", "bits_", "compression_ratio")
WITHHELD = "it stands in events.jsonl, as it may tell who took part"
OF_A_RUN = ("started", "committed", "stopped", "ended")  # events that are of no single node


def is_secret(settings: Mapping[str, Any]) -> bool:
    """Return whether settings, by their dotted names, ask for a draw of nodes that no seed gives.

    >>> is_secret({"rounds.selector": "poisson", "privacy.noise": "secure"}), is_secret({"rounds.selector": "poisson"})
    (True, False)
    """
    return settings.get("rounds.selector") == "poisson" and settings.get("privacy.noise") == "secure"


def is_public(name: str) -> bool:
    """Return whether a column tells nothing of who took part.

    >>> [name for name in ("accuracy", "bytes_up", "cohort", "late", "training_seconds") if is_public(name)]
    ['accuracy', 'training_seconds']
    """
    return name not in COUNTS and not name.startswith(OF_BYTES)


def of_the_run(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an event without what tells who took part; None for an event of single nodes.

    >>> of_the_run({"event": "committed", "round": 1, "cohort": 5}), of_the_run({"event": "reported", "node": 3})
    ({'event': 'committed', 'round': 1}, None)
    """
    return without_participation(event) if event["event"] in OF_A_RUN else None


def without_participation(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row, an event or a summary without what tells who took part.

    >>> without_participation({"status": "failed", "reason": "3 of 5 reported", "cohort": 5})
    {'status': 'failed', 'reason': 'it stands in events.jsonl, as it may tell who took part'}
    """
    reason = {"reason": WITHHELD} if row.get("status") == "failed" else {}
    return {name: value for name, value in row.items() if is_public(name)} | reason
