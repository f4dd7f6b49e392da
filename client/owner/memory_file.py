"""The memory of a node on a network, in a file of its own.

Flower forgets the state of a node with its SuperNode, and with the run: a run that is resumed is a new one to Flower.
So a node with ``node-config memory`` keeps its memory in that folder, by the name of the run folder: a privacy budget
that was spent stays spent, and a residual is still owed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256
from pathlib import Path

from client.memory import put_records, records_of
from client.request import Request
from fedlearn import flower
from fedlearn.core.errors import RunFailed
from fedlearn.runs.files import sync_folder, write_atomically


@contextmanager
def memory_at_home(request: Request) -> Iterator[None]:
    """Read the memory from the node's file before the block, and write it there after it if it has changed.

    The file is on the disk before the reply leaves, also where the block raises. Afterwards the context holds no
    memory: it does not travel between SuperNode and task. Without ``node-config memory``, as in a simulation, the
    memory stays in the context.
    """
    file = _file_of(request)
    if file is None:
        yield
        return
    context, before = request.context, _read(file)
    put_records(context, flower.from_bytes(before))
    request.forget_memory()  # nothing that was read before the file may be spent from
    try:
        yield
    finally:
        after = flower.to_bytes(records_of(context))
        if after != before:
            write_atomically(file, sha256(after).digest() + after)
        elif before:
            sync_folder(file.parent)  # a kill may have come before it: what is answered by must outlast a power failure
        put_records(context, {})


def _file_of(request: Request) -> Path | None:
    """Return where a node on a network keeps its memory of a run; None in a simulation."""
    folder = request.context.node_config.get("memory")
    if not folder:
        return None
    run = blake2b(request.config.out.encode(), digest_size=8).hexdigest()
    return Path(str(folder)) / f"{request.partition_id}-{run}.memory"


def _read(file: Path) -> bytes:
    """Return the serialised records of a file; empty where there is no file yet.

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
        raise RunFailed(f"the client's memory {file} cannot be read: {error.strerror}") from None
    digest, data = stored[:32], stored[32:]
    if sha256(data).digest() != digest:
        raise RunFailed(
            f"the client's memory {file} is damaged: put a copy back, or remove it to let the client forget what it "
            "has spent and what it owes"
        )
    return data
