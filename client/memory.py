"""What one node keeps from message to message, and where.

During a message the memory lies in Flower's ``Context.state``, where `memory_of` reads it and `keep` writes it. In a
simulation it stays there: the engine keeps it for its nodes, and the run's checkpoint holds it. On a network Flower
forgets a node's state with its SuperNode, and with the run: a run that is taken up again is a new one to Flower. There
`stored_at_home` keeps it in a file of the node's own, by the name of the run folder, so that a privacy budget that was
spent stays spent and a residual is still owed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message

from client.node import partition_id_of
from fedlearn import flower, wire
from fedlearn.flower import ClientAppCallable, Record
from fedlearn.runs.files import sync_folder, write_atomically
from fedlearn.words.errors import RunFailed
from fedlearn.words.state import State

TEXTS = "memory"  # name of the record of texts in a context's state
ARRAYS = "memory."  # what the names of the records of arrays there begin with


@dataclass(slots=True)
class NodeMemory:
    """A node's memory; learners and mods change it in place.

    Parameters
    ----------
    texts
        Name -> text, as ``{"ledger": "{...}"}``.
    arrays
        Name -> named arrays, as ``{"residual": {"fc1.weight": ...}}``; each is read-only: put others in its place.
    """

    texts: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, State] = field(default_factory=dict)


def memory_of(context: Context) -> NodeMemory:
    """Return what the node has kept; an empty memory at first."""
    memory = NodeMemory()
    for key, record in context.state.items():
        if key == TEXTS:
            memory.texts = {name: str(text) for name, text in record.items()}
        elif key.startswith(ARRAYS) and isinstance(record, ArrayRecord):
            memory.arrays[key.removeprefix(ARRAYS)] = wire.unpack_arrays(record)
    return memory


def keep(context: Context, memory: NodeMemory) -> None:
    """Have the node keep this memory, and nothing of the one before."""
    _put(context, _records_of(memory))


def _records_of(memory: NodeMemory) -> dict[str, Record]:
    records: dict[str, Record] = {ARRAYS + name: wire.pack_arrays(state) for name, state in memory.arrays.items()}
    return records | ({TEXTS: ConfigRecord(dict(memory.texts))} if memory.texts else {})


def _put(context: Context, records: Mapping[str, Record]) -> None:
    for key in [key for key in context.state if _is_memory(key)]:
        del context.state[key]
    for key in sorted(records):
        context.state[key] = records[key]


def _is_memory(key: str) -> bool:
    return key == TEXTS or key.startswith(ARRAYS)


def stored_at_home(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Mod: read the memory from the node's file before a message, and write it there after it if it has changed.

    It is on the disk before the reply leaves, also where the client app raises. Afterwards nothing of it is left in the
    context: it does not travel between SuperNode and task. Without ``node-config memory``, as in a simulation, it
    stays in the context.
    """
    file = _file_of(context)
    if file is None:
        return call_next(message, context)
    before = _read(file)
    _put(context, flower.from_bytes(before))
    try:
        return call_next(message, context)
    finally:
        after = flower.to_bytes({key: record for key, record in context.state.items() if _is_memory(key)})
        if after != before:
            write_atomically(file, sha256(after).digest() + after)
        elif before:
            sync_folder(file.parent)  # a kill may have come before it: what is answered by must outlast a power failure
        _put(context, {})


def _file_of(context: Context) -> Path | None:
    """Return where a node on a network keeps its memory of a run; None in a simulation."""
    folder = context.node_config.get("memory")
    if not folder:
        return None
    run = blake2b(str(context.run_config["out"]).encode(), digest_size=8).hexdigest()
    return Path(str(folder)) / f"{partition_id_of(context)}-{run}.memory"


def _read(file: Path) -> bytes:
    """Return the serialised records of a file; nothing where there is none yet.

    Raises
    ------
    RunFailed
        If it does not hold what was written: an account must not begin anew because a disk has failed.
    """
    try:
        stored = file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunFailed(f"the node's memory {file} cannot be read: {error.strerror}") from None
    digest, data = stored[:32], stored[32:]
    if sha256(data).digest() != digest:
        raise RunFailed(
            f"the node's memory {file} is damaged: put a copy back, or remove it to let the node forget what it has "
            "spent and what it owes"
        )
    return data
