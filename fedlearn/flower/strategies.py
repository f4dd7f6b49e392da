"""What Flower's strategies keep under private names."""

from __future__ import annotations

from flwr.serverapp.strategy import Strategy


def forget_pending(strategy: Strategy, round_number: int) -> None:
    """Have a differential privacy wrapper forget that it has configured a round of which nothing was released.

    It books what a round costs when it aggregates, and raises where a round is configured twice in between.
    """
    pending = getattr(strategy, "_pending_events", None)
    if isinstance(pending, dict):
        pending.pop(round_number, None)
