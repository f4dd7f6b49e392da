"""What happens to every report on its way out, as Flower mods: they fit around any ClientApp's train function."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

from client.node import NodeState, keep_residual, partition_id_of, residual_of
from fedlearn import wire
from fedlearn.compression import Codec, Payload, load_codec
from fedlearn.compression.residual import encode_with_residual
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.seeding import report_seed
from fedlearn.state import State


def active_while_training(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Mark the node as active until its report is made."""
    node = NodeState.of(context)
    node.keep(context, active=True)
    reply = call_next(message, context)
    node.keep(context, active=False, rounds_trained=node.rounds_trained + 1)
    return reply


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
        arrays = wire.unpack_arrays(wire.only(reply.content, ArrayRecord))
        if config.compression.send == "update":
            state = wire.read_state(message.content)
            arrays = {name: array - state[name] for name, array in arrays.items()}
        reply.content[wire.ARRAYS] = wire.pack_arrays(_encoded(_codec(config), arrays, context, seed))
    reply.content[wire.REPORT] = wire.report_record(
        instruction, partition_id=partition_id, seed=seed, sends=config.compression.send
    )
    wire.seal(reply.content)
    return reply


def _encoded(codec: Codec, arrays: State, context: Context, seed: int) -> Payload:
    """Return what travels; the node keeps what is lost, if the codec wants it."""
    if not codec.keeps_residual:
        return codec.encode(arrays, seed=seed)
    payload, residual = encode_with_residual(codec, arrays, residual_of(context), seed=seed)
    keep_residual(context, residual)
    return payload


@per_run
def _codec(config: RunConfig) -> Codec:
    return load_codec(config.compression)
