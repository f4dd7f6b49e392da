"""Immediate asynchronous rounds (FedAsync): every report is mixed into the state when it comes."""

from __future__ import annotations

from fedlearn.config.fields import NonNegative, Share
from fedlearn.core.state import Sends, State
from server.run import ServerRun
from server.schedules.asynchronous.buffer import wide
from server.schedules.asynchronous.schedule import Asynchronous
from server.schedules.asynchronous.staleness import Count, Form, Staleness


class Immediate(Asynchronous):
    """Commits ``(1 - a) * state + a * what the node has made of an earlier one``, with a = mixing * s(staleness).

    Entries that the node did not send stay. What is written in the paper as a mean of two states is here the change
    ``a * (node's weights - state)``, which a strategy gets: with ``fedavg`` it is the same.

    Parameters
    ----------
    run
        What is run.
    mixing : float, default=0.6
        alpha, above 0 and at most 1.
    in_flight, staleness, power, slope, grace, largest_staleness
        As in `Buffered`.

    References
    ----------
    Xie et al. 2019, "Asynchronous federated optimization" (arXiv:1903.03934), algorithm 1. Its pull of the node towards
    the state that it was sent, rho, is ``training.proximal_mu``.
    """

    def __init__(
        self, run: ServerRun, *, mixing: Share = 0.6, in_flight: Count = 0, staleness: Form = "polynomial",
        power: NonNegative = 0.5, slope: NonNegative = 10.0, grace: Count = 4, largest_staleness: Count = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            run,
            buffer_size=1,
            in_flight=in_flight,
            staleness=Staleness(staleness, power, slope, grace),
            largest_staleness=largest_staleness,
        )
        self.mixing = mixing

    def factor(self, staleness: int) -> float:
        """Return alpha times the weight of the staleness."""
        return self.mixing * super().factor(staleness)

    def offset(self, sent: State) -> State | None:
        """Return the summand that turns weights, or the change of the sent state, into a change of the latest state."""
        latest = self.server.state
        if self.sends is Sends.WEIGHTS:
            return {name: -wide(array) for name, array in latest.items()}
        return {name: wide(sent[name]) - wide(array) for name, array in latest.items()}
