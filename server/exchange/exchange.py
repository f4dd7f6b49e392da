"""The exchange: the only part of the server that sends messages, hears replies, counts bytes and knows the time.

Every phase asks in the same way: it sends messages, each with what it is about, and then looks again and again at what
has come, until all have answered or the time is over.

    pending = exchange.send(messages, about=members)
    for _ in exchange.looks(until=deadline):
        for arrival in pending.arrivals():
            ...
        if not pending.open:
            break
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.aggregation.offers import Folding, NodeIds, Timed, offers_of
from fedlearn.core.clock import WallClock
from fedlearn.core.metric import VIRTUAL_SECONDS
from fedlearn.core.state import State
from fedlearn.plugins.registry import load_reference
from fedlearn.runs.history import History
from server.exchange.grids import CohortGrid, for_network
from server.exchange.traffic import Traffic

SHORTEST, LONGEST = 0.05, 0.5  # seconds between looks; with shorter ones the server starves training on two cores
SHARE = 0.05
VIRTUAL_SHARE = 0.1  # of a wait in virtual time: at most so long between looks

T = TypeVar("T")
Book = Literal["protocol", "down", ""]


class Arrival(NamedTuple, Generic[T]):
    """One reply.

    Parameters
    ----------
    about
        What the message was about that it answers.
    again
        The node has answered this message before: the first answer stands.
    """

    about: T
    reply: Message
    again: bool


class Pending(Generic[T]):
    """Messages that were sent, and what each is about.

    Parameters
    ----------
    open
        Message id -> what it is about, of those that were not answered yet.
    unsent
        What those messages were about whose nodes are not connected any more.
    """

    def __init__(self, exchange: Exchange, sent: Mapping[str, T], unsent: Sequence[T], *, booked: bool) -> None:
        self.open = dict(sent)
        self.unsent = list(unsent)
        self._exchange = exchange
        self._booked = booked

    def join(self, others: Pending[T]) -> None:
        """Wait for these messages, too, from now on."""
        self.open |= others.open
        self.unsent += others.unsent

    def arrivals(self) -> Iterator[Arrival[T]]:
        """Yield the replies that have come since the last look."""
        about = self._exchange.answered(self.open)
        for reply in self._exchange.pull(list(about)):
            message_id = reply.metadata.reply_to_message_id
            if message_id not in about:
                continue
            if self._booked and reply.has_content():
                self._exchange.traffic.protocol += wire.bytes_of(reply.content)
            again = self.open.pop(message_id, None) is None
            yield Arrival(about[message_id], reply, again)


class Exchange:
    """The connection of the server to the nodes of a run.

    Parameters
    ----------
    grid
        Any Flower grid; what it can do beyond messages is used (`fedlearn/aggregation/offers.py`).
    settings
        The run's flat settings, for what is computed.
    """

    def __init__(self, grid: Grid, settings: Mapping[str, Any]) -> None:
        offers = offers_of(grid)
        self._grid = for_network(grid)
        self._offers = offers
        self._settings = settings
        self.clock = offers.clock
        self.wall = WallClock() if offers.timed else offers.clock
        self.traffic = Traffic()

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(
        self,
        messages: Sequence[Message],
        about: Sequence[T],
        *,
        book: Book = "protocol",
        begun: Sequence[float] = (),
    ) -> Pending[T]:
        """Send messages; return the pending replies.

        Parameters
        ----------
        about
            What each message is about, in the same order.
        book
            What the messages' bytes count as; their replies' then count as protocol. Empty where both are counted by
            the caller, as of instructions and reports.
        begun
            When each was sent already, in virtual time, before the run was stopped; empty for those that are new.
        """
        size = wire.bytes_of_all(messages) if book else 0  # before a simulated node can change its own
        ids = list(self._push(messages, begun)) if messages else []
        size -= wire.bytes_of_all([each for key, each in zip(ids, messages, strict=True) if not key]) if book else 0
        self.traffic.down += size * (book == "down")
        self.traffic.protocol += size * (book == "protocol")
        sent = {key: each for key, each in zip(ids, about, strict=True) if key}
        unsent = [each for key, each in zip(ids, about, strict=True) if not key]
        return Pending(self, sent, unsent, booked=bool(book))

    def _push(self, messages: Sequence[Message], begun: Sequence[float]) -> Iterable[str]:
        return self.timed.push_again(messages, begun) if begun and self.timed else self._grid.push_messages(messages)

    def pull(self, message_ids: Sequence[str]) -> Iterable[Message]:
        """Return the replies to these messages that have come, each once."""
        return self._grid.pull_messages(message_ids) if message_ids else ()

    def answered(self, open_messages: Mapping[str, T]) -> dict[str, T]:
        """Return the messages that may have been answered: in real time all; in virtual time the grid knows which.

        There each reply has a look of its own: to go through all messages for each would take a cohort's square.
        """
        if self.timed is None:
            return dict(open_messages)
        return {key: open_messages[key] for key in self.timed.arrived() if key in open_messages}

    def take_traffic(self) -> Traffic:
        """Return the traffic counted since the last call."""
        traffic, self.traffic = self.traffic, Traffic()
        return traffic

    # --- time ---------------------------------------------------------------------------------------------------------

    def looks(self, *, until: float) -> Iterator[None]:
        """Yield at once, and again after pauses that grow, a last time when the clock says `until`."""
        begin = self.clock.now()
        while True:
            yield
            now = self.clock.now()
            if now >= until:
                return
            if self.timed:  # devices come and go meanwhile, so it looks even if no reply comes
                share = VIRTUAL_SHARE * (until - begin)
                self.timed.wait(min(until - now, share) if now + share > now else until - now)
            else:
                self.clock.sleep(pause(waited=now - begin, left=until - now))

    @property
    def timed(self) -> Timed | None:
        """The grid's virtual time; None in real time."""
        return self._offers.timed

    # --- nodes --------------------------------------------------------------------------------------------------------

    @property
    def is_virtual(self) -> bool:
        """Whether the nodes are virtual: the grid knows what they hold, and keeps their memories."""
        return self._offers.partitions is not None

    def nodes_by_partition(self) -> Sequence[int] | None:
        """Return the ids of all nodes, in the order of their partitions; None where only the nodes know."""
        return None if self._offers.partitions is None else self._offers.partitions()

    def reachable(self) -> NodeIds | None:
        """Return the ids of the nodes that can be reached now: all, if nodes have no devices."""
        return self.nodes_by_partition() if self.timed is None else self.timed.reachable()

    def is_reachable(self, node_id: int) -> bool:
        """Return whether a virtual node can be written to now."""
        return self.timed is None or self.timed.is_reachable(node_id)

    def connected(self) -> dict[int, str]:
        """Return the nodes that can be written to now: id -> the name that its key was registered by, empty without."""
        return {info.node_id: info.name for info in self._grid.get_nodes()}

    def cohort_grid(self, node_ids: Sequence[int]) -> Grid:
        """Return a grid that shows a strategy these nodes and no others."""
        return CohortGrid(self._grid, list(node_ids))

    def node_states(self) -> bytes:
        """Return the nodes' memories if the grid keeps them; empty if the nodes do."""
        return b"" if self._offers.keep is None else self._offers.keep.node_states()

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return the memories changed since the last call; `settled`: once nodes have read all sent to them."""
        return b"" if self._offers.keep is None else self._offers.keep.changed_node_states(settled=settled)

    def restore_node_states(self, data: bytes) -> None:
        """Give it back to the grid, after a resume."""
        if self._offers.keep is not None:
            self._offers.keep.restore_node_states(data)

    def go_on_from(self, history: History) -> None:
        """Put virtual time where it was when the last round was committed."""
        if self.timed and history.rounds:
            self.clock.sleep(history.rounds[-1].measured[VIRTUAL_SECONDS.name] or 0.0)

    # --- work ---------------------------------------------------------------------------------------------------------

    @property
    def stacks(self) -> bool:
        """Whether the grid trains several nodes together."""
        return self._offers.stacks

    @property
    def fold(self) -> Folding | None:
        """The grid's workers that check and add up reports where they are made; None where the server does it."""
        return self._offers.fold

    def compute(
        self,
        function: str | Callable[..., Any],
        state: State,
        arguments: Sequence[tuple[Any, ...]],
        *,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return ``function(settings, state, *each)`` for each of the arguments: on workers, if it has any.

        Parameters
        ----------
        function
            The function, or its ``module:name`` where the server must not import it.
        seconds
            How long a worker may take for one before another one tries, too; None where the grid knows best.
        """
        reference = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
        if self._offers.compute is not None:
            patience = {} if seconds is None else {"seconds": seconds}
            return self._offers.compute(reference, state, arguments, **patience)
        loaded = load_reference(reference)
        return [loaded(self._settings, state, *each) for each in arguments]

    def ask(self, question: str | Callable[..., T], kind: type[T] | None = None, *, seconds: float | None = None) -> T:
        """Return what a function of the run's settings alone says, computed where nodes are computed.

        Parameters
        ----------
        question
            As `function` for `compute`.
        kind
            What it returns, where mypy cannot see it.
        seconds
            As for `compute`.
        """
        (answer,) = self.compute(question, {}, [()], seconds=seconds)
        assert kind is None or isinstance(answer, kind)
        found: T = answer
        return found


def pause(*, waited: float, left: float) -> float:
    """Return the seconds until the next look: a twentieth of what was waited so far, and never more than is left.

    So asking costs a short wait little, and a long one, of minutes of training, hardly any messages.

    >>> [pause(waited=seconds, left=100.0) for seconds in (0.1, 4.0, 60.0)]
    [0.05, 0.2, 0.5]
    """
    return max(min(max(waited * SHARE, SHORTEST), LONGEST, left), 0.0)
