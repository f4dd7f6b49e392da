"""What a strategy is here: Flower's Strategy, and how accumulated reports become the next state.

Our server (`server/schedules`) calls `configure_train` for the messages, adds up the reports itself, where they are
made, and then calls `next_state`. Under Flower's own ``Strategy.start`` the four hooks of Flower do the same work.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedlearn import wire
from fedlearn.compression import Codec
from fedlearn.compression.identity import Identity
from fedlearn.config.schema import CompressionSettings
from fedlearn.flower import aggregate_metricrecords
from fedlearn.folding import Accumulator
from fedlearn.registry import load_reference
from fedlearn.state import Array, Layout, Sends, State, Update, UpdateKind, layout_of

AVERAGES = frozenset({UpdateKind.DENSE, UpdateKind.MASKED})


class RoundStrategy(Strategy):
    """A strategy that knows which entries were sent.

    Parameters
    ----------
    uniform
        Every node weighs one; else its number of examples.
    codec, sends
        Only for ``Strategy.start``: how reports are decoded, and what their values are. Our server knows by itself.
    """

    accepts: ClassVar[frozenset[UpdateKind]] = AVERAGES
    accumulator: ClassVar[str] = "strategies.masked_mean:MaskedSum"
    sums: ClassVar[bool] = False  # of ensembles: whether members are added up; else their mean counts

    def __init__(self, *, uniform: bool = False, codec: Codec | None = None, sends: Sends = Sends.WEIGHTS) -> None:
        self.uniform = uniform
        self.codec = codec or Identity()
        self.sends = sends
        self._state: State = {}

    def check_sent(self, sent: UpdateKind, compression: CompressionSettings) -> None:
        """Raise SettingError, before the first round, where its options do not go with what nodes will send."""

    @abstractmethod
    def next_state(self, state: State, reports: Any, *, sends: Sends, round_number: int) -> State:
        """Return the state after a committed round.

        Parameters
        ----------
        state
            The state that the cohort was sent; stays as it is.
        reports
            The filled `accumulator`; an entry that nobody sent must keep its value.
        """

    def memory(self) -> dict[str, Array]:
        """Return what the strategy carries from round to round, to be stored with the state."""
        return {}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take back what `memory` returned, after a resume."""

    # --- Flower's hooks -----------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the same state and settings for every node of the grid."""
        self._state = wire.unpack_arrays(arrays)
        return _messages(server_round, arrays, config, grid, MessageType.TRAIN)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the next state and the mean of the nodes' metrics; errors are skipped."""
        answered = sorted(
            (reply for reply in replies if reply.has_content()),
            key=lambda reply: reply.metadata.src_node_id,
        )
        if not answered:
            return None, None
        layout = layout_of(self._state)
        reports: Accumulator = load_reference(self.accumulator).empty(layout)
        for reply in answered:
            update = self.read(reply.content, layout)
            weight = 1 if self.uniform else wire.read_num_examples(reply.content)
            reports.add([(weight, update)])
        state = self.next_state(self._state, reports, sends=self.sends, round_number=server_round)
        return wire.pack_arrays(state), _mean_metrics(answered)

    def read(self, content: RecordDict, layout: Layout) -> Update:
        """Return what a reply sends, under ``Strategy.start``; raises Refused."""
        return wire.read_update(content, codec=self.codec, layout=layout)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the same state and settings for every node of the grid."""
        return _messages(server_round, arrays, config, grid, MessageType.EVALUATE)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the mean of the nodes' metrics, weighted by examples."""
        answered = [reply for reply in replies if reply.has_content()]
        return _mean_metrics(answered) if answered else None

    def summary(self) -> None:
        """Log nothing: the run's settings are stored with the run."""


def _messages(
    server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, message_type: str
) -> list[Message]:
    told = ConfigRecord({**config, wire.SERVER_ROUND: server_round})
    content = RecordDict({wire.ARRAYS: arrays, wire.CONFIG: told})
    return [Message(content, node_id, message_type) for node_id in grid.get_node_ids()]


def _mean_metrics(replies: list[Message]) -> MetricRecord:
    return aggregate_metricrecords([reply.content for reply in replies], wire.NUM_EXAMPLES)
