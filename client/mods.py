"""What happens to every report on its way out, as Flower mods: they fit around any ClientApp's train function."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ArrayRecord, Context, Message, RecordDict

from client.discretion import is_private
from client.memory import NodeMemory, keep, memory_of
from client.node import NodeStatus, partition_id_of
from fedlearn import flower, wire
from fedlearn.compression import Codec, Payload, load_codec, load_downlink, parcel_codec
from fedlearn.compression.residual import encode_with_residual
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.flower import ClientAppCallable
from fedlearn.models.loaded import loaded
from fedlearn.words.seeding import downlink_seed, parcel_seed, report_seed
from fedlearn.words.state import Layout, State, difference, layout_of

RESIDUAL = "residual"  # what the node's codec has lost so far and still owes, in the node's memory
BEFORE = "residual-before"  # the same before the round of this number, of a private node
ROUND = "residual-round"


def boxed(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Take the server's records out of their boxes, and put the reply into one: who sends boxes can open them."""
    is_boxed = wire.unbox(message.content)
    reply = call_next(message, context)
    if is_boxed and reply.has_content():
        wire.box(reply.content)
    return reply


def active_while_training(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Mark the node as active until its report is made."""
    node = NodeStatus.of(context)
    node.keep(context, active=True)
    reply = call_next(message, context)
    node.keep(context, active=False, rounds_trained=node.rounds_trained + 1)
    return reply


_last_expanded: tuple[ArrayRecord, ArrayRecord] | None = None


def expand(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Put the state in place of what the server's codec has made of it.

    Nodes of one process are given the very same record in a round: it is decoded once.
    """
    global _last_expanded
    config = from_flower(context.run_config)
    if config.compression.downlink != "identity":
        received = wire.state_record(message.content)
        if _last_expanded is None or _last_expanded[0] is not received:
            round_number = wire.read_instruction(message.content).round_number
            _last_expanded = (received, wire.pack_arrays(_expanded(config, received, round_number)))
        message.content[wire.state_key(message.content)] = _last_expanded[1]
    return call_next(message, context)


def _expanded(config: RunConfig, received: ArrayRecord, round_number: int) -> State:
    layout = _layout(config)
    seed = downlink_seed(config.seed, round_number=round_number)
    update = _downlink(config).decode(wire.unpack_arrays(received), layout=layout, seed=seed)
    return {name: entries.dense(layout[name]) for name, entries in update.items()}


def compress(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Replace the dense arrays of a report by what the codec sends, and add what our server wants to know.

    With ``send = "update"`` the arrays are first reduced by the state that came with the message.
    """
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    config = from_flower(context.run_config)
    instruction = wire.read_instruction(message.content)
    partition_id = partition_id_of(context)
    seed = report_seed(config.seed, round_number=instruction.round_number, node=partition_id)
    if config.compression.send == "update" or config.compression.codec != "identity":
        arrays = wire.unpack_arrays(wire.state_record(reply.content))
        if config.compression.send == "update":
            state = wire.read_state(message.content)
            arrays = {name: difference(array, state[name]) for name, array in arrays.items()}
        payload = _encoded(config, arrays, context, round_number=instruction.round_number, seed=seed)
        flower.filled(reply.content, {wire.ARRAYS: wire.pack_arrays(payload)})
    _compress_parcels(reply.content, wire.wanted_parcels(message.content), seed)
    report = wire.report_record(instruction, partition_id=partition_id, seed=seed, sends=config.compression.send)
    flower.filled(reply.content, {wire.REPORT: report})
    wire.seal(reply.content)
    return reply


def _encoded(config: RunConfig, arrays: State, context: Context, *, round_number: int, seed: int) -> Payload:
    """Return what travels; the node keeps what is lost, if the codec wants it."""
    codec = _codec(config)
    if not codec.keeps_residual:
        return codec.encode(arrays, seed=seed)
    memory = memory_of(context)
    owed = _owed_before(round_number, memory) if is_private(config) else memory.arrays.get(RESIDUAL, {})
    payload, memory.arrays[RESIDUAL] = encode_with_residual(codec, arrays, owed, seed=seed)
    keep(context, memory)
    return payload


def _owed_before(round_number: int, memory: NodeMemory) -> State:
    """Return what a private node owed before a round, and remember it: asked again, it sends the same bytes again.

    Its ledger gives the same answer in each attempt of a round, also after a kill, before which its memory was stored.
    """
    if memory.texts.get(ROUND) != str(round_number):
        memory.texts[ROUND], memory.arrays[BEFORE] = str(round_number), memory.arrays.get(RESIDUAL, {})
    return memory.arrays.get(BEFORE, {})


def _compress_parcels(content: RecordDict, codecs: Mapping[str, str], seed: int) -> None:
    """Put what travels in place of the parcels beside the state, each by the codec that it was asked for by."""
    for name, record in wire.parcels_of(content).items():
        codec = parcel_codec(codecs.get(name, "identity"))
        content[name] = wire.pack_arrays(codec.encode(wire.unpack_arrays(record), seed=parcel_seed(seed, name)))


@per_run
def _layout(config: RunConfig) -> Layout:
    return layout_of(loaded(config)[1].initial_state(seed=config.seed))


@per_run
def _downlink(config: RunConfig) -> Codec:
    return load_downlink(config.compression)


@per_run
def _codec(config: RunConfig) -> Codec:
    return load_codec(config.compression)
