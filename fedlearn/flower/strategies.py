"""Private attributes of Flower's strategies."""

from __future__ import annotations

from flwr.serverapp.strategy import Strategy


def forget_pending(strategy: Strategy, round_number: int) -> None:
    """Make a differential privacy wrapper forget a round that it has configured and of which no result was released.

    The wrapper books a round's cost when it aggregates, and raises where a round is configured twice before that.
    """
    pending = getattr(strategy, "_pending_events", None)
    if isinstance(pending, dict):
        pending.pop(round_number, None)
