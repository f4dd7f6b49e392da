"""Flower's client mods of `client.mods`, around the training function.

They stand between ours and training: what they change is compressed, sealed and measured like any update. A mod sees
what it sees in any Flower App: one ArrayRecord with the state, one ConfigRecord with the strategy's settings, and in
the reply one ArrayRecord and one MetricRecord. Our own records are put aside meanwhile.

In a simulation the global generators begin where (seed, round, attempt, node) puts them. Else the operating system puts
them, anew for each message: processes that were forked from one another must not add the same noise.
"""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message

from client.node import partition_id_of
from fedlearn import wire
from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.flower import ClientAppCallable, Record
from fedlearn.flower.mods import NamedMod, load_mods
from fedlearn.plugging.generators import seeded_globals
from fedlearn.words.seeding import seed_for


def guests(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Mod: call the user's mods around what follows."""
    config = from_flower(context.run_config)
    mods = _mods(config)
    if not mods:
        return call_next(message, context)
    sent = wire.state_record(message.content)
    message.content[wire.state_key(message.content)] = sent.copy()  # other nodes of this process have the same one
    ours = wire.put_aside(message.content)
    aside: dict[str, Record] = {}

    def innermost(message: Message, context: Context) -> Message:
        message.content.update(ours)
        reply = call_next(message, context)
        wire.put_aside(message.content)
        if reply.has_content():
            aside.update(wire.put_aside(reply.content))
        return reply

    try:
        with seeded_globals(_seed(config, ours, context)):
            reply = _around(mods, innermost)(message, context)
    finally:
        message.content.update(ours)
    if reply.has_content():
        _restore_types(reply, sent)
        reply.content.update(aside)
    return reply


def _around(mods: list[NamedMod], innermost: ClientAppCallable) -> ClientAppCallable:
    call = innermost
    for mod in reversed(mods):
        call = _before(mod, call)
    return call


def _before(mod: NamedMod, call_next: ClientAppCallable) -> ClientAppCallable:
    return lambda message, context: mod(message, context, call_next)


def _seed(config: RunConfig, ours: dict[str, Record], context: Context) -> int | None:
    if config.privacy.noise != "seeded":
        return None
    instruction = wire.read_instruction(ours)
    return seed_for(
        config.seed, purpose="client mods", round_number=instruction.round_number, attempt=instruction.attempt,
        node=partition_id_of(context),
    )  # fmt: skip


def _restore_types(reply: Message, sent: ArrayRecord) -> None:
    """Give arrays the types of the state again: scaling by a NumPy number makes them wider."""
    arrays = wire.only(reply.content, ArrayRecord)
    if any(name in sent and packed.dtype != sent[name].dtype for name, packed in arrays.items()):
        state = wire.unpack_arrays(arrays)
        typed = {name: array.astype(sent[name].dtype) if name in sent else array for name, array in state.items()}
        reply.content[wire.state_key(reply.content)] = wire.pack_arrays(typed)


@per_run
def _mods(config: RunConfig) -> list[NamedMod]:
    return load_mods(config.client.mods)
