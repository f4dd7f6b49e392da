"""What a strategy is here: Flower's Strategy, and how accumulated reports become the next state.

Our server (`server/schedules`) calls `configure_train` for the messages, adds up the reports itself, where they are
made, and then calls `next_state`. Under Flower's own ``Strategy.start`` the four hooks of Flower do the same work.

A strategy may send parcels of its own beside the state (`parcels`) and ask each node for some (`answers`), put fold
steps before the sum (`steps`), and ask for a learner that knows of them (`learner`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedlearn import flower, wire
from fedlearn.aggregation.fold import ParcelFold
from fedlearn.aggregation.fold_plan import STATE, Accumulator, ParcelPlan, StepSpec
from fedlearn.compression import Codec, parcel_codec
from fedlearn.compression.alike import LIKE_STATE, decode_alike
from fedlearn.compression.identity import Identity
from fedlearn.config import RunConfig
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.cohort import At, Member, NodeReport
from fedlearn.core.errors import Refused
from fedlearn.core.metric import Metric
from fedlearn.core.seeding import parcel_seed
from fedlearn.core.state import Array, Layout, Sends, State, Update, UpdateKind, layout_of
from fedlearn.flower import Record, aggregate_metricrecords
from fedlearn.privacy.noise import Noise, secure_noise

FIRST = At(1, 1)
AVERAGES = frozenset({UpdateKind.DENSE, UpdateKind.MASKED})
AVERAGE = "strategies.masked_mean:MaskedSum"  # the accumulator of strategies that need no more than a sum


A = TypeVar("A", bound=Accumulator)


@dataclass(frozen=True, slots=True)
class Turn(Generic[A]):
    """The facts from which a strategy makes the next state, when a round is to be committed.

    Parameters
    ----------
    state
        The state that the cohort was sent; stays as it is.
    total
        What the strategy's accumulator has made of the nodes' states, or of their changes.
    sends
        Which of these it was.
    parcels
        Name -> what was asked for by `RoundStrategy.answers`, added up.
    at
        Round and attempt.
    members, reports
        The cohort in the order of its positions, and what became of each.
    clients
        How many nodes the run has.
    noise
        Randomness that protects, if the strategy adds noise: secure, or seeded in a simulation.
    root
        What the run's learner has made of the state on the server's root examples; empty if none are asked for.

    Examples
    --------
    >>> Turn({}, total=None, sends=Sends.UPDATE, at=At(3, 1)).at.round_number
    3
    """

    state: State
    total: A
    sends: Sends
    parcels: Mapping[str, Accumulator] = field(default_factory=dict)
    at: At = FIRST
    members: Sequence[Member] = ()
    reports: Sequence[NodeReport] = ()
    clients: int = 0
    noise: Noise = field(default_factory=secure_noise)
    root: State = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one turn of a strategy.

    Parameters
    ----------
    state
        The next state; an entry that no node sent must keep its value.
    measured
        What the strategy has measured on the way, by the names of `RoundStrategy.metrics`.
    left_out
        Places of nodes, among those that reported, of whose changes a defence has taken nothing; for the log.

    Examples
    --------
    >>> Step({}, measured={"shrinkage": 0.5}).measured
    {'shrinkage': 0.5}
    """

    state: State
    measured: Mapping[str, float | None] = field(default_factory=dict)
    left_out: Sequence[int] = ()


class RoundStrategy(Strategy, Generic[A]):
    """A strategy that knows which entries were sent.

    Parameters
    ----------
    uniform
        Every node weighs one; else its number of examples.
    codec, sends
        Only for ``Strategy.start``: how reports are decoded, and what their values are. Our server knows by itself.

    Examples
    --------
    >>> import numpy as np
    >>> class Keep(RoundStrategy):
    ...     def next_state(self, turn):
    ...         return Step(turn.state)
    >>> Keep(uniform=True).next_state(Turn({"w": np.zeros(2)}, total=None, sends=Sends.UPDATE)).state
    {'w': array([0., 0.])}
    """

    accepts: ClassVar[frozenset[UpdateKind]] = AVERAGES
    accumulator: ClassVar[str] = AVERAGE
    takes_stale: ClassVar[bool] = False  #: whether it may get changes of earlier states, and two of one node in a turn
    sums: ClassVar[bool] = False  #: of ensembles: whether members are added up; else their mean counts

    takes_groups: ClassVar[bool] = False  #: whether the means of groups of nodes may stand for reports
    attackers: int = 0  #: f: how many of the reports may lie, for strategies that stand some
    reads_reports: ClassVar[bool] = False  #: whether a sum of the states alone is too little, as a secure sum is
    grows: ClassVar[str] = ""  #: an array of the state that only gets longer: clients that keep it are sent the rest
    clips: ClassVar[bool] = False  #: whether reports are clipped by its learner, and `released` adds noise to their sum
    steps: tuple[StepSpec, ...] = ()  #: what each node's update goes through before it is added up
    laws: ClassVar[tuple[str, ...]] = ()  #: which it claims to keep (`fedlearn.algorithms.conformance`)
    metrics: tuple[Metric, ...] = ()  #: what `next_state` measures: further columns of the run's table
    reads_all_metrics: ClassVar[bool] = False  #: whether `Turn.reports` are to hold all that nodes have measured
    root_examples: int = 0  #: so many examples of its own the server trains on in each round, for `Turn.root`
    gate: ClassVar[str] = "server.gate.gate:ReportGate"  #: what checks reports, before they are added up
    learner: ClassVar[str] = ""  #: the learner that its nodes must have, as in training.learner; empty for any

    def __init__(self, *, uniform: bool = False, codec: Codec | None = None, sends: Sends = Sends.WEIGHTS) -> None:
        self.uniform = uniform
        self.codec = codec or Identity()
        self.sends = sends
        self._state: State = {}

    @property
    def fewest_reports(self) -> int:
        """The number of reports below which no round is committed, whatever the quorum."""
        return 1

    def check_sent(self, sent: UpdateKind, compression: CompressionSettings) -> None:
        """Raise SettingError, before the first round, where its options do not go with what nodes will send."""

    def check_cohort(self, cohort: int) -> None:
        """Raise SettingError, before the first round, where a cohort of so many nodes is too small for the strategy."""

    @abstractmethod
    def next_state(self, turn: Turn[A]) -> Step:
        """Return the state after a committed round; changes nothing but what `memory` returns."""

    def released(self, total: A, config: RunConfig, release: Callable[[Any], Any]) -> A:
        """Return a round's sum of clipped reports with noise, where ``clips`` says that there can be some.

        Parameters
        ----------
        release
            Returns a `MaskedSum` of one report's L2 norm of at most ``privacy.clip`` with the run's noise, and with the
            expected number of clients as its weights.
        """
        raise NotImplementedError(f"{type(self).__name__} clips no reports")

    def parcels(self, state: State) -> Mapping[str, State]:
        """Return the parcels for every node beside the state: parcel -> named arrays."""
        return {}

    def answers(self, state: State) -> Mapping[str, ParcelPlan]:
        """Return the parcels that every node must send beside its state: parcel -> its layout, and how it is summed."""
        return {}

    def memory(self) -> dict[str, Array]:
        """Return the arrays that the strategy carries from round to round, to be stored with the state."""
        return {}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Take back what `memory` returned, after a resume."""

    # --- Flower's hooks -----------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the same state and settings for every node of the grid."""
        self._state = wire.unpack_arrays(arrays)
        records: dict[str, Record] = {name: wire.pack_arrays(each) for name, each in self.parcels(self._state).items()}
        if asked := {name: plan.codec for name, plan in self.answers(self._state).items()}:
            records[wire.PARCELS] = wire.parcels_record(asked)
        return _messages(server_round, arrays, config, grid, MessageType.TRAIN, records)

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
        plans = {
            STATE: ParcelPlan(layout, self.accumulator, self.uniform, steps=self.steps),
            **self.answers(self._state),
        }
        folds = {name: ParcelFold(plan) for name, plan in plans.items()}
        sums = {name: fold.empty() for name, fold in folds.items()}
        for reply in answered:
            num_examples = wire.read_num_examples(reply.content)
            sent = self.read(reply.content, layout)
            for name, fold in folds.items():
                update = sent if name == STATE else _read_parcel(reply, name, plans[name], sent)
                sums[name].add([fold.part(num_examples, update)])
        total = cast(A, sums.pop(STATE))
        step = self.next_state(Turn(self._state, total, self.sends, sums, At(server_round, 1), clients=len(answered)))
        return wire.pack_arrays(step.state), _mean_metrics(answered)

    def read(self, content: RecordDict, layout: Layout) -> Update:
        """Return the update in a reply, under ``Strategy.start``; raise Refused if it does not decode."""
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


def _read_parcel(reply: Message, name: str, plan: ParcelPlan, sent: Update) -> Update:
    record = wire.parcels_of(reply.content).get(name)
    if record is None:
        raise Refused("wrong-parcels", f"{name!r} is missing")
    if plan.codec == LIKE_STATE:
        return decode_alike(wire.unpack_arrays(record), layout=plan.layout, sent=sent)
    seed = parcel_seed(wire.read_seed(reply.content), name)
    codec: Codec = parcel_codec(plan.codec)
    return codec.decode(wire.unpack_arrays(record), layout=plan.layout, seed=seed)


def _messages(
    server_round: int,
    arrays: ArrayRecord,
    config: ConfigRecord,
    grid: Grid,
    message_type: str,
    others: Mapping[str, Record] = MappingProxyType({}),
) -> list[Message]:
    told = ConfigRecord({**config, wire.SERVER_ROUND: server_round})
    content = RecordDict({wire.ARRAYS: arrays, wire.CONFIG: told, **others})
    return [flower.message_to(content, node_id, message_type) for node_id in grid.get_node_ids()]


def _mean_metrics(replies: list[Message]) -> MetricRecord:
    return aggregate_metricrecords([reply.content for reply in replies], wire.NUM_EXAMPLES)
