"""Flower's client mods of `client.mods`, around the training function.

They stand between ours and training: what they change is compressed, sealed and measured like any update. A mod sees
what it sees in any Flower App: one ArrayRecord with the state, one ConfigRecord with the strategy's settings, and in
the reply one ArrayRecord and one MetricRecord. Our own records are put aside meanwhile.

In a simulation the global generators begin where (seed, round, attempt, node) puts them. Else the operating system puts
them, anew for each message: processes that were forked from one another must not add the same noise.
"""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict

from client.learners.plain_answer import Answer
from client.request import Request
from fedlearn import flower, wire
from fedlearn.config import RunConfig, per_run
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State
from fedlearn.flower import ClientAppCallable, Record
from fedlearn.flower.named_mods import NamedMod, load_mods
from fedlearn.plugins.generators import seeded_globals


def with_mods(request: Request, state: State, learn: Callable[[State, RecordDict], Answer]) -> Answer | Message:
    """Return what a node learns, with the user's mods around it.

    Parameters
    ----------
    state
        That the node was sent.
    learn
        Called with the state and the records of the message, as the mods leave them.

    Returns
    -------
    Answer or Message
        The message of a mod that answers with an error, as it is.
    """
    mods = _mods(request.config)
    if not mods:
        return learn(state, request.content)
    message, sent = request.message, wire.pack_arrays(state)  # anew: other nodes of this process have the same one
    message.content[wire.state_key(message.content)] = sent
    ours = wire.put_aside(message.content)
    parcels: dict[str, Record] = {}

    def innermost(message: Message, context: Context) -> Message:
        content = flower.filled(message.content.copy(), ours)
        reply = Message(learn(wire.read_state(content), content).to_records(), reply_to=message)
        parcels.update(wire.put_aside(reply.content))
        return reply

    try:
        with seeded_globals(_seed(request)):
            reply = _around(mods, innermost)(message, request.context)
    finally:
        message.content.update(ours)
    if reply.has_error():
        return reply
    reply.content.update(parcels)
    answer = Answer.in_records(reply.content)
    return answer._replace(arrays=_as_sent(answer.arrays, state))


def _around(mods: list[NamedMod], innermost: ClientAppCallable) -> ClientAppCallable:
    call = innermost
    for mod in reversed(mods):
        call = _before(mod, call)
    return call


def _before(mod: NamedMod, call_next: ClientAppCallable) -> ClientAppCallable:
    return lambda message, context: mod(message, context, call_next)


def _seed(request: Request) -> int | None:
    if request.config.privacy.noise != "seeded":
        return None
    instruction = request.instruction
    return seed_for(
        request.config.seed, purpose="client mods", round_number=instruction.round_number, attempt=instruction.attempt,
        node=request.partition_id,
    )  # fmt: skip


def _as_sent(arrays: State, sent: State) -> State:
    """Return arrays of the types of the state: scaling by a NumPy number makes them wider."""
    return {
        name: array.astype(sent[name].dtype, copy=False) if name in sent else array for name, array in arrays.items()
    }


@per_run
def _mods(config: RunConfig) -> list[NamedMod]:
    return load_mods(config.client.mods)
