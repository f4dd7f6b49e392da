"""The base of selectors, which draws at random and does not learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from fedlearn.core.state import Array

Partitions = NDArray[np.int64]


class Participation(NamedTuple):
    """The facts of one node in a committed round.

    Parameters
    ----------
    loss
        The mean of its training; None where it did not report, or said none.
    seconds
        From the instruction to its report; None where none came in time.

    Examples
    --------
    >>> Participation(partition_id=3, num_examples=20, loss=0.7, seconds=None).loss
    0.7
    """

    partition_id: int
    num_examples: int
    loss: float | None
    seconds: float | None


KNOWN = ("losses", "examples", "seconds", "tried")  # of each node, by a selector that learns


class Selector:
    """Draws each cohort uniformly at random from the nodes that are ready.

    Parameters
    ----------
    clients, seed
        Of the run.

    Examples
    --------
    >>> drawn = Selector(clients=10, seed=1).draw(np.arange(10), 4, At(1, 1))
    >>> len(drawn), drawn == Selector(clients=10, seed=1).draw(np.arange(10), 4, At(1, 1))
    (4, True)
    """

    invites: ClassVar[float] = 1.3  #: nodes asked for each one wanted, unless rounds.invited says how many
    asks_all: ClassVar[bool] = False  #: whether every node is asked, and must be ready
    may_draw_none: ClassVar[bool] = False  #: whether no node at all is a valid draw, and a round without reports one
    invites_as_drawn: ClassVar[bool] = False  #: whether `draw` also chooses the nodes that are asked
    goes_by_time: ClassVar[bool] = False  #: whether it learns from `Participation.seconds`
    goes_by_loss: ClassVar[bool] = False  #: whether it learns from `Participation.loss`, which private nodes never say

    def __init__(self, *, clients: int, seed: int) -> None:
        self.clients = clients
        self.seed = seed

    def draw(self, ready: Partitions, count: int, at: At) -> Sequence[int]:
        """Return the partitions that take part; a function of the seed, `at` and what was learned.

        Parameters
        ----------
        ready
            The partitions of the nodes that are ready, sorted, shape (n_ready,).
        count
            How many are wanted. A selector may return another number, as Poisson sampling does: with fewer reports than
            the quorum of those that it drew the round is abandoned.
        """
        rng = rng_for(self.seed, purpose="cohort", **at._asdict())
        drawn: list[int] = ready[rng.choice(len(ready), count, replace=False)].tolist()
        return drawn

    def learn(self, took_part: Sequence[Participation], round_number: int) -> None:
        """Learn from a committed round, whose facts are in the order of positions."""

    def memory(self) -> Mapping[str, Array]:
        """Return the learned arrays, to be stored with the state."""
        return {}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take back what `memory` returned, after a resume."""


class LearningSelector(Selector):
    """Keeps the last report of each node, in arrays by partition.

    Attributes
    ----------
    losses
        Mean loss of its last training; infinite where it has never reported.
    examples
        How many it trained on, 0 likewise.
    seconds
        How long it last took; infinite where it has never been in time.
    tried
        The round in which it last took part; 0: never.

    Examples
    --------
    >>> selector = LearningSelector(clients=3, seed=1)
    >>> selector.learn([Participation(partition_id=2, num_examples=20, loss=0.5, seconds=1.5)], round_number=1)
    >>> selector.losses.tolist(), selector.tried.tolist()
    ([inf, inf, 0.5], [0, 0, 1])
    """

    invites = 5.0

    def __init__(self, *, clients: int, seed: int) -> None:
        super().__init__(clients=clients, seed=seed)
        self.losses = np.full(clients, np.inf)
        self.examples = np.zeros(clients)
        self.seconds = np.full(clients, np.inf)
        self.tried = np.zeros(clients, np.int64)

    def learn(self, took_part: Sequence[Participation], round_number: int) -> None:
        """Keep what each node said last; one that did not report keeps what it said before."""
        for each in took_part:
            node = each.partition_id
            self.tried[node] = round_number
            self.seconds[node] = np.inf if each.seconds is None else each.seconds
            if each.loss is not None:
                self.losses[node], self.examples[node] = each.loss, each.num_examples

    def memory(self) -> Mapping[str, Array]:
        """Return which nodes have taken part, and of these the four arrays: no more than that is to be stored."""
        nodes = np.flatnonzero(self.tried)
        return {"nodes": nodes, **{name: getattr(self, name)[nodes] for name in KNOWN}}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take them back."""
        for name in KNOWN:
            getattr(self, name)[memory["nodes"]] = memory[name]
