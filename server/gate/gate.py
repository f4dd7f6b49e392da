"""The checks that a report must pass before it may touch the model.

A node is not trusted: its report may be broken, stale, or hostile. Each check has a word that stands in the event log
and in the run's table; a refused report leaves the model as it is, and the round goes on without it.

| word | refused because |
|---|---|
| ``too-large`` | it has more records, or more entries in one, than any report |
| ``undecodable`` | records are missing, or bytes are no array in NumPy's format |
| ``wrong-checksum`` | arrays or metrics are not those that the node has sent: bits have changed on the way |
| ``wrong-round``, ``wrong-attempt`` | it answers another instruction |
| ``wrong-node`` | it claims another place in the cohort than the one it was given |
| ``wrong-seed`` | its codec drew other entries than the run's seed gives this node |
| ``wrong-count`` | the number of examples is not a whole number from 1 to ``gate.max_examples`` (1 if nodes hide it) |
| ``wrong-kind`` | it sends weights where the change is expected, or the reverse |
| ``wrong-names``, ``wrong-shape``, ``wrong-dtype`` | the payload does not fit the model |
| ``wrong-positions`` | the entries that it says it sends are none of the model |
| ``not-finite`` | NaN or infinity among the values |
| ``wrong-parcels`` | it brings other parcels beside the state than were asked for |
| ``norm-too-large`` | their L2 norm exceeds ``gate.max_norm``, or that of the change ``gate.max_ratio`` usual ones |
| ``norm-too-large`` | in runs that protect nodes, the L2 norm of the change exceeds ``privacy.clip`` and local noise |
| ``share-too-large`` | by its number of examples it would have nearly all of the weight (``gate.max_share``) |
| ``duplicate`` | the node has already reported in this attempt |

Of trees the model itself says whether they are sound (`fedlearn.private_trees.federated.models.forest`);
beside names, shapes and dtypes:

| word | refused because |
|---|---|
| ``bad-child`` | a child or root lies outside the table, before its parent (as in a cycle), or has two parents |
| ``bad-feature`` | a node tests a feature that is not declared |
| ``bad-threshold`` | a threshold is NaN or infinite, or stands where none belongs |
| ``bad-value`` | a value is not finite, or outside the bounds of the target |
| ``bad-weight`` | the weights of the trees do not sum to 1 |
| ``too-deep`` | a path is longer than ``gate.max_depth`` |
| ``too-large`` | there are more nodes than ``gate.max_nodes``, or more trees than the model has a node grow |

Of sums (`fedlearn.models.sums`), beside names, shapes and dtypes:

| word | refused because |
|---|---|
| ``wrong-count`` | one report counts as several, or as none |
| ``too-large`` | a number is beyond what ``gate.max_examples`` records and honest noise come to |
| ``norm-too-large`` | the L1 norm of all numbers is |
"""

from __future__ import annotations

import math
import reprlib

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedlearn import wire
from fedlearn.aggregation import STATE, FoldPlan, Verdict
from fedlearn.compression import load_codec, parcel_codec
from fedlearn.compression.alike import LIKE_STATE, decode_alike
from fedlearn.config import RunConfig, from_flower
from fedlearn.core.cohort import Fate, Member, NodeReport
from fedlearn.core.errors import Refused, said
from fedlearn.core.metric import Metric
from fedlearn.core.seeding import parcel_seed, report_seed
from fedlearn.core.state import Layout, Sends, State, Update, dense_update
from fedlearn.flower import ErrorCode
from fedlearn.models import model_spec
from fedlearn.models.loaded import loaded
from fedlearn.models.model import Ensemble, Summed
from fedlearn.privacy.adaptive_clip import WITHIN
from fedlearn.privacy.clipping import is_clipped
from fedlearn.wire.decoded_state import Downlink
from server.gate.limits import Limits
from server.gate.norms import NOTHING, norm_of

MOST_ARRAYS = 8  # times as many arrays as the state has: what a codec makes of each is far less
MOST_ENTRIES = 64  # records of a report, and entries of its metrics and its config


class ReportGate:
    """Checks the reports of one attempt.

    Parameters
    ----------
    plan
        Round, attempt, layout and settings.
    """

    def __init__(self, plan: FoldPlan) -> None:
        config = from_flower(plan.settings)
        self._plan = plan
        self._config = config
        self._run_seed = config.seed
        self._limits = config.gate
        counts_loss = any(metric.is_privacy_loss for metric in plan.metrics.values())  # as private learners do
        is_private = model_spec(config.model.name).is_private or counts_loss
        self._most_examples = (
            1 if (is_private and not config.privacy.public_sizes) or config.protects_nodes else config.gate.max_examples
        )
        self._sends = Sends(config.sends)
        self._codec = load_codec(config.compression)
        self._parcels = {
            name: (parcel, None if parcel.codec == LIKE_STATE else parcel_codec(parcel.codec))
            for name, parcel in plan.parcels.items()
            if name != STATE
        }
        self._beside = None if plan.typical is None else Limits(plan.typical, plan.cohort, config.gate)
        self._downlink = Downlink.of(config, layout=plan.layout)
        self._longest = _longest(config, self._plan.layout)
        self._seen: set[int] = set()

    def check(self, reply: Message, member: Member, sent: RecordDict) -> Verdict:
        """Return the verdict on what came from `member`; never raises for what a node sent."""
        if reply.has_error():
            reason = said(reply.error.reason or "") or "no reason given"
            raised = reply.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            return Verdict(NodeReport(member.position, Fate.FAILED, reason=reason, raised=raised))
        bytes_up = 0
        try:
            bytes_up = _bytes_of(reply.content)
            self._check_size(reply.content)
            num_examples, norm, parcels = self._admit(reply.content, member, sent)
        except Refused as refused:
            report = NodeReport(member.position, Fate.REFUSED, bytes_up=bytes_up, reason=str(refused))
            return Verdict(report)
        if self._beside is not None and (why := self._beside.why_not(norm, num_examples)):
            return Verdict(NodeReport(member.position, Fate.REFUSED, num_examples, bytes_up, why, norm=norm))
        metrics, why = self._metrics(reply.content)
        report = NodeReport(member.position, Fate.REPORTED, num_examples, bytes_up, why, metrics, norm=norm)
        return Verdict(report, parcels)

    def _metrics(self, content: RecordDict) -> tuple[dict[str, float], str]:
        """Return the metrics of a node that are read and lie in their range; and why one does not."""
        came = wire.only(content, MetricRecord)
        known = self._plan.metrics
        found, why = {}, ""
        for name in came if self._plan.reads_all_metrics else known:
            value = came.get(name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                continue
            metric = known.get(name, Metric(name))
            sound = metric.in_range(float(value))
            if sound is None:
                why = why or f"wrong-metric: {name} is {value:g}, which can be {metric.range}: not counted"
            else:
                found[name] = sound
        return found, why

    def _check_size(self, content: RecordDict) -> None:
        """Refuse records of far more entries than any report has, before any is read: only their bytes are counted."""
        arrays = sum(len(parcel.layout) for parcel in self._plan.parcels.values())
        allowed = {ArrayRecord: MOST_ARRAYS * arrays, MetricRecord: MOST_ENTRIES, ConfigRecord: MOST_ENTRIES}
        if len(content) > MOST_ENTRIES:
            raise Refused("too-large", f"{len(content)} records, allowed are {MOST_ENTRIES}")
        for key, record in content.items():
            if len(record) > (most := allowed[type(record)]):
                raise Refused("too-large", f"{key} has {len(record)} entries, allowed are {most}")

    def _admit(self, content: RecordDict, member: Member, sent: RecordDict) -> tuple[int, float, dict[str, Update]]:
        """Return number of examples, norm of the change and parcels of a report that is sound in itself."""
        self._check_place(content, member)
        wire.check_seal(content)
        num_examples = wire.read_num_examples(content)
        if not 1 <= num_examples <= self._most_examples:
            allowed = f"from 1 to {self._most_examples}"
            raise Refused("wrong-count", f"{num_examples} examples, allowed are {allowed}")
        if self._plan.kind.is_averaged:
            update, norm = self._update(content, member, sent)
        else:
            update, norm = self._members(content), 0.0
        parcels = {STATE: update, **self._others(content, member, update)}
        if member.position in self._seen:
            raise Refused("duplicate", f"client {member.node_id} has already reported")
        self._seen.add(member.position)
        return num_examples, norm, parcels

    def _others(self, content: RecordDict, member: Member, state: Update) -> dict[str, Update]:
        """Return the parcels beside the state: exactly those that were asked for, each in its layout, finite."""
        came = wire.parcels_of(content)
        if wire.ANCHOR in content:
            raise Refused("wrong-parcels", "came an anchor, which only a server sends")
        if came.keys() != self._parcels.keys():
            raise Refused("wrong-parcels", f"came {sorted(came)}, expected {sorted(self._parcels)}")
        updates = {}
        for name, (plan, codec) in self._parcels.items():
            seed, payload = parcel_seed(self._seed_of(member), name), wire.unpack_arrays(came[name])
            if codec is None:
                updates[name] = decode_alike(payload, layout=plan.layout, sent=state)
            else:
                updates[name] = codec.decode(payload, layout=plan.layout, seed=seed)
            norm_of(updates[name])
            if name == WITHIN and self._config.adapts_clip and abs(updates[name][WITHIN].values[0]) != 0.5:
                raise Refused("wrong-values", "whether a change was within the clipping norm is 1/2 or -1/2")
        return updates

    def _update(self, content: RecordDict, member: Member, sent: RecordDict) -> tuple[Update, float]:
        """Return the sent entries of the state, all finite, and the L2 norm of the change that they make."""
        update = wire.read_update(content, codec=self._codec, layout=self._plan.layout)
        if self._config.protects_nodes and not self._config.nodes_add_noise:
            self._check_clipped(update, sent)
            return update, 0.0
        norm = norm_of(update, NOTHING if self._sends is Sends.UPDATE else self.state_in(sent))
        if norm > self._longest:
            raise Refused("norm-too-large", "the change is longer than privacy.clip and honest noise come to")
        if most := self._limits.max_norm:
            of_values = norm if self._sends is Sends.UPDATE else norm_of(update)
            if of_values > most:
                raise Refused("norm-too-large", f"L2 norm {of_values:.6g}, allowed is {most:g}")
        return update, norm

    def _check_clipped(self, update: Update, sent: RecordDict) -> None:
        """Refuse a change that is not finite or too long to be hidden by noise; say no number of it."""
        norm_of(update)
        clip = wire.read_clip(sent) if self._config.adapts_clip else self._config.privacy.clip
        if not is_clipped({name: entries.values for name, entries in update.items()}, clip):
            raise Refused("norm-too-large", "the change is longer than privacy.clip")

    def state_in(self, sent: RecordDict, *, anchor: State | None = None) -> State:
        """Return the state of an instruction, as its node has seen it; most share one record, which is read once.

        A strategy that sends something else sends no state: what comes back is then its own change.

        Parameters
        ----------
        anchor
            The decoded anchor to which the state was sent as a correction; None without anchors.
        """
        try:
            state = self._downlink.state_in(sent, round_number=self._plan.at.round_number, anchor=anchor)
        except Refused:
            return NOTHING
        layout = self._plan.layout
        return {name: array for name, array in state.items() if name in layout and array.size == layout[name].size}

    def _members(self, content: RecordDict) -> Update:
        """Return the members of an ensemble, or sums; only the model itself can tell whether they are sound."""
        members = wire.read_members(content)
        model = loaded(self._config)[1]
        if isinstance(model, Summed):
            model.check_sums(members, before=self._plan.layout, max_examples=self._limits.max_examples)
            return dense_update(members)
        assert isinstance(model, Ensemble)
        limits = self._limits
        model.check_members(members, before=self._plan.layout, max_depth=limits.max_depth, max_nodes=limits.max_nodes)
        return dense_update(members)

    def _check_place(self, content: RecordDict, member: Member) -> None:
        found = wire.read_report(content)
        expected = {
            "round_number": ("wrong-round", self._plan.at.round_number),
            "attempt": ("wrong-attempt", self._plan.at.attempt),
            "position": ("wrong-node", member.position),
            "partition_id": ("wrong-node", member.partition_id),
            "seed": ("wrong-seed", self._seed_of(member)),
            "sends": ("wrong-kind", self._sends),
        }
        for name, (reason, value) in expected.items():
            if found.get(name) != value:
                raise Refused(reason, f"{name} is {reprlib.repr(found.get(name))}, expected {value!r}")

    def _seed_of(self, member: Member) -> int:
        """Return the codec's seed that the node must have used: it cannot choose which entries it sends."""
        return report_seed(self._run_seed, round_number=self._plan.at.round_number, node=member.partition_id)


def _longest(config: RunConfig, layout: Layout) -> float:
    """Return the largest L2 norm of a change with honest local noise; infinite where no such noise is sent as it is."""
    if not config.nodes_add_noise or config.privacy.trust != "local" or config.compression.codec != "identity":
        return math.inf
    from fedlearn.privacy.local_dp import OwnNoise

    return OwnNoise.of(config).largest_norm(sum(spec.size for spec in layout.values()))


def _bytes_of(content: RecordDict) -> int:
    """Return the size of a report; refuse one that cannot be sent, as with an integer of 100 bits."""
    try:
        return wire.bytes_of(content)
    except Exception as error:  # whatever a client has put there
        raise Refused("undecodable", f"it cannot be serialised: {error!r}") from None
