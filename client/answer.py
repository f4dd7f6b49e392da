"""The report of a node: its answer as the codec sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flwr.app import Message, RecordDict

from client.acknowledged_sums import book
from client.isolated_fits import learner_of
from client.learners.plain_answer import Answer
from client.owner.error_disclosure import is_private
from client.request import Request
from client.secure_sums import secure_node as summing
from fedlearn import flower, wire
from fedlearn.aggregation import STATE
from fedlearn.compression import Codec, Payload, load_codec, parcel_codec
from fedlearn.compression.alike import LIKE_STATE, alike, encode_alike
from fedlearn.compression.residual import encode_with_residual
from fedlearn.config import RunConfig, per_run
from fedlearn.core.cohort import At
from fedlearn.core.seeding import parcel_seed, report_seed
from fedlearn.core.state import Entries, Layout, State, Update, UpdateKind, difference, layout_of
from fedlearn.models.loaded import auxiliary_in, loaded
from fedlearn.privacy.adaptive_clip import WITHIN
from fedlearn.privacy.clipping import clipped, within

RESIDUAL = "residual"  # what the node's codec has lost so far and still owes, in the node's memory
BEFORE = "residual-before"  # the same before the round of this number, of a private node
ROUND = "residual-round"


def report(request: Request, answer: Answer, *, state: State) -> Message:
    """Return the report of an answer: its arrays as the codec sends them, what our server checks it by, a checksum.

    Parameters
    ----------
    state
        That the node was sent: with ``send = "update"`` the change against it travels.
    """
    config, instruction = request.config, request.instruction
    if auxiliary := auxiliary_in(loaded(config)[1]):  # what follows from a weight goes back as it came
        answer = answer._replace(arrays={**answer.arrays, **{name: state[name] for name in auxiliary}})
    is_clipped_here = config.protects_nodes and not config.nodes_add_noise
    if is_clipped_here:  # one node counts as one, and of all that it has measured one bit has noise
        answer = answer._replace(parcels={}, others={wire.METRICS: wire.metrics_record({}, 1)})
    if config.is_secure:
        return summing.masked_report(request, answer.arrays, answer.others[wire.METRICS], state=state)
    seed = report_seed(config.seed, round_number=instruction.round_number, node=request.partition_id)
    arrays = answer.arrays
    if config.sends == "update":
        arrays = {name: difference(array, state[name]) for name, array in arrays.items()}
    if is_clipped_here and loaded(config)[1].update_kind is not UpdateKind.SUMS:  # whose learner clips them
        clip = wire.read_clip(request.content) if config.adapts_clip else config.privacy.clip
        if config.adapts_clip:
            answer = answer._replace(parcels={WITHIN: {WITHIN: within(arrays, clip)}})
        arrays = clipped(arrays, clip)
    payload = _encoded(request, arrays, seed=seed) if config.compression.codec != "identity" else arrays
    codecs = wire.wanted_parcels(request.content)
    sent: Update = {}
    if (counted := getattr(learner_of(config), "counted", ())) or LIKE_STATE in codecs.values():
        sent = _codec(config).decode(payload, layout=layout_of(arrays), seed=seed)  # as the server will read it
        _book(request, counted, answer.parcels, sent, state)
    about = wire.report_record(instruction, partition_id=request.partition_id, seed=seed, sends=config.sends)
    records = {
        wire.ARRAYS: wire.pack_arrays(payload),
        **answer.others,
        **{
            name: wire.pack_arrays(_encoded_parcel(name, arrays, codecs.get(name, "identity"), seed, sent))
            for name, arrays in answer.parcels.items()
        },
        wire.REPORT: about,
    }
    content = flower.filled(RecordDict(), records)
    wire.seal(content)
    return Message(content, reply_to=request.message)


def _encoded(request: Request, arrays: State, *, seed: int) -> Payload:
    """Return what travels; the node keeps what is lost, if the codec wants it."""
    codec, memory = _codec(request.config), request.memory
    if not codec.keeps_residual:
        return codec.encode(arrays, seed=seed)
    owed = _owed_before(request) if is_private(request.config) else memory.arrays.get(RESIDUAL, {})
    payload, memory.arrays[RESIDUAL] = encode_with_residual(codec, arrays, owed, seed=seed)
    return payload


def _owed_before(request: Request) -> State:
    """Return what a private node owed before a round, and remember it: asked again, it sends the same bytes again.

    Its ledger gives the same answer in each attempt of a round, also after a kill, before which its memory was stored.
    """
    memory, round_number = request.memory, str(request.instruction.round_number)
    if memory.texts.get(ROUND) != round_number:
        memory.texts[ROUND], memory.arrays[BEFORE] = round_number, memory.arrays.get(RESIDUAL, {})
    return memory.arrays.get(BEFORE, {})


def _book(request: Request, counted: Sequence[str], parcels: Mapping[str, State], sent: Update, state: State) -> None:
    """Keep what is sent of the change of the state, and of parcels that travel like it, as far as the learner asks."""
    sums = {name: alike(parcels[name], sent) for name in counted if name in parcels}
    layouts: dict[str, Layout] = {name: layout_of(parcels[name]) for name in sums}
    if STATE in counted:
        floats = {name: each for name, each in sent.items() if state[name].dtype.kind == "f"}
        sums[STATE] = floats if request.config.sends == "update" else _changes(floats, state)
        layouts[STATE] = layout_of(state)
    if sums:
        instruction = request.instruction
        book(request.memory, At(instruction.round_number, instruction.attempt), sums, layouts)


def _changes(sent: Update, state: State) -> dict[str, Entries]:
    base = alike(state, sent)
    return {name: Entries(each.values - base[name].values, each.positions) for name, each in sent.items()}


def _encoded_parcel(name: str, arrays: State, codec: str, seed: int, sent: Update) -> Payload:
    """Return what travels of a parcel, by the codec that the server asked for."""
    if codec == LIKE_STATE:
        return encode_alike(arrays, sent)
    return parcel_codec(codec).encode(arrays, seed=parcel_seed(seed, name))


@per_run
def _codec(config: RunConfig) -> Codec:
    return load_codec(config.compression)
