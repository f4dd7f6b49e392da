"""Telling nodes that a round is over for them: cancelled, rejected, late, refused, or abandoned."""

from __future__ import annotations

from collections.abc import Mapping

from fedlearn import wire
from fedlearn.core.cohort import At
from server.exchange.exchange import Exchange, Pending

TTL = 60.0  # seconds; a node without its notice by then is asked again whether it is ready anyway


class Notices:
    """Sends notices and throws their empty answers away."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._pending: Pending[int] = exchange.send([], [])

    def send(self, why: Mapping[int, str], at: At) -> None:
        """Tell each node of `why` its word."""
        if why:
            messages = [
                wire.round_over(node_id, round_number=at.round_number, attempt=at.attempt, why=word, ttl=TTL)
                for node_id, word in why.items()
            ]
            self._pending.join(self._exchange.send(messages, list(why)))

    def clear(self) -> None:
        """Take in the answers that have come, so that no transport keeps them."""
        for _ in self._pending.arrivals():
            pass
