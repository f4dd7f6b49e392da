"""Telling nodes that a round is over for them: rejected, late, refused, or abandoned."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.serverapp import Grid

from fedlearn import wire

TTL = 60.0  # seconds; a node that has not heard of it by then is asked again whether it is ready anyway


class Notices:
    """Sends notices and throws their empty answers away."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._open: list[str] = []
        self._bytes_sent = 0

    def send(self, why: Mapping[int, str], *, round_number: int, attempt: int) -> None:
        """Tell each node of `why` its word."""
        if not why:
            return
        messages = [
            wire.round_over(node_id, round_number=round_number, attempt=attempt, why=word, ttl=TTL)
            for node_id, word in why.items()
        ]
        self._bytes_sent += wire.bytes_of_all(messages)
        self._open += [message_id for message_id in self._grid.push_messages(messages) if message_id]

    def take_bytes(self) -> int:
        """Return the size of all notices sent since the last call."""
        size, self._bytes_sent = self._bytes_sent, 0
        return size

    def clear(self) -> None:
        """Take in the answers that have come, so that no transport keeps them."""
        if self._open:
            answered = {m.metadata.reply_to_message_id for m in self._grid.pull_messages(self._open)}
            self._open = [message_id for message_id in self._open if message_id not in answered]
