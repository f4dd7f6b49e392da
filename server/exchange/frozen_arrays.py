"""Arrays of the model that no training message brings: which node lacks them, and gets them once.

In a simulation every process makes them from the seed. On a network a ready query names their SHA-256. A node that has
made other numbers of its model says so, and the arrays are sent to it, once; they count as bytes sent down.
"""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Message

from fedlearn import wire
from fedlearn.core.client_facts import LACKS
from fedlearn.core.cohort import At
from fedlearn.core.state import State, digest_of
from server.exchange.exchange import Exchange, Pending


class Unsent:
    """The unsent arrays of a run, and the nodes that were sent them.

    Parameters
    ----------
    arrays
        Name -> array; empty where a model is sent as a whole.
    window
        Seconds of a selection window. A query lives so much longer on a network, so that late answers are found.
    """

    def __init__(self, exchange: Exchange, arrays: State, *, window: float) -> None:
        self._exchange = exchange
        self._arrays = arrays
        self._digest = digest_of(arrays) if arrays and not exchange.is_virtual else ""
        self._sent_to: set[int] = set()
        self._longer = 0.0 if exchange.is_virtual else window

    def ask(self, node_ids: Sequence[int], at: At, *, ttl: float) -> Pending[int]:
        """Ask nodes whether they are ready, and have the arrays; return the pending answers, by node id."""
        return self._exchange.send([self._query(node_id, at, ttl) for node_id in node_ids], node_ids)

    def sent_after(self, node_id: int, reply: Message, at: At, *, ttl: float) -> Pending[int] | None:
        """Send the arrays to a node that answers that it lacks them, unless it was sent them before.

        Returns
        -------
        Pending or None
            The pending answer, which is one to a ready query; None if nothing was sent.
        """
        if not self._digest or node_id in self._sent_to or wire.read_ready_answer(reply)[1] != LACKS:
            return None
        self._sent_to.add(node_id)
        return self._exchange.send([self._query(node_id, at, ttl, self._arrays)], [node_id], book="down")

    def _query(self, node_id: int, at: At, ttl: float, arrays: State | None = None) -> Message:
        ttl = max(ttl, 1.0) + self._longer
        return wire.ready_query(node_id, **at._asdict(), ttl=ttl, unsent=self._digest, arrays=arrays)
