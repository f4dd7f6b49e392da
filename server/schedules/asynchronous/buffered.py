"""Buffered asynchronous rounds (FedBuff): a round is made of the first K changes that come, each by its staleness."""

from __future__ import annotations

from fedlearn.config.fields import NonNegative
from fedlearn.core.state import Sends, State
from server.run import ServerRun
from server.schedules.asynchronous.buffer import wide
from server.schedules.asynchronous.schedule import Asynchronous
from server.schedules.asynchronous.staleness import Count, Form, Staleness

BUFFER = 10  # reports; K of the paper's experiments


class Buffered(Asynchronous):
    """Commits the mean of the changes in a full buffer, each times the weight s of its staleness t.

    With weights n of the nodes (their examples, or one), the change that a strategy gets is
    ``sum(n * s(t) * change) / sum(n)``, entry by entry over those who sent it: stale changes are made smaller, not just
    weighed less. With ``strategy.weighting = "uniform"`` that is the paper's ``1 / K * sum(s(t) * change)``, and its
    server rate is ``server_lr`` of strategy ``fedavgm`` with momentum 0.

    Parameters
    ----------
    run
        What is run.
    buffer_size : int, default=0
        K, reports that make a round; 0 takes 10, or as many as are in flight where those are fewer.
    in_flight : int, default=0
        Nodes that work at the same time; 0 takes ``rounds.cohort``. Fewer than `buffer_size` are allowed: they are
        replaced until the buffer is full.
    staleness : {"constant", "polynomial", "hinge"}, default="polynomial"
        The weight of a change by its staleness, `server.schedules.asynchronous.staleness.Staleness`.
    power : float, default=0.5
        polynomial: from 0.
    slope, grace
        hinge: from 0; 10 and 4 by default.
    largest_staleness : int, default=0
        A node that is still at work after more commits is told to stop, and its report does not count; 0: no limit.

    References
    ----------
    Nguyen et al. 2022, "Federated learning with buffered asynchronous aggregation" (arXiv:2106.06639), algorithm 1.
    """

    def __init__(
        self, run: ServerRun, *, buffer_size: Count = 0, in_flight: Count = 0, staleness: Form = "polynomial",
        power: NonNegative = 0.5, slope: NonNegative = 10.0, grace: Count = 4, largest_staleness: Count = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            run,
            buffer_size=buffer_size or min(BUFFER, in_flight or run.config.goal_count),
            in_flight=in_flight,
            staleness=Staleness(staleness, power, slope, grace),
            largest_staleness=largest_staleness,
        )

    def offset(self, sent: State) -> State | None:
        """Return None for changes; for weights, the negated state that was sent, which makes them a change."""
        return None if self.sends is Sends.UPDATE else {name: -wide(array) for name, array in sent.items()}
