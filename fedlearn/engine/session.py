"""Engines that are kept from run to run: workers, their imports, mapped data and compiled code serve many runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from fedlearn.engine import load_engine
from fedlearn.engine.embedded.forkserver import begin_early, end_unused
from fedlearn.engine.engine_type import Engine

_kept: Callable[[str], Engine] | None = None  # of the session that is open


@contextmanager
def session() -> Iterator[None]:
    """Keep the engines of the runs in this block: the first run starts workers, and the others go on with them.

    The process that workers are forked from is begun with the block, and imports while the caller does.

    Each run has the bytes that it has alone, as a worker forgets a run when the next one begins. The workers end with
    the block, with a run that fails, or when a run wants another number of them; then the next run starts others. A
    module that a run names and that is changed meanwhile is not imported again; objects are sent anew with each run.
    A session within a session is the same one.

    Examples
    --------
    >>> with fedlearn.session():  # doctest: +SKIP
    ...     runs = [fedlearn.run(clients=10, data="digits", lr=lr) for lr in (0.01, 0.02, 0.05)]
    """
    global _kept
    if _kept is not None:
        yield
        return
    begin_early()
    with ExitStack() as stack:
        engines: dict[str, Engine] = {}

        def kept(name: str) -> Engine:
            if name not in engines:
                engines[name] = stack.enter_context(load_engine(name).kept_warm())
                if not engines[name].forks:
                    end_unused()
            return engines[name]

        _kept = kept
        try:
            yield
        finally:
            _kept = None


def engine_of(name: str) -> Engine:
    """Return the engine of a name: that of the open session, else one that ends its processes after each run."""
    return load_engine(name) if _kept is None else _kept(name)


def _forget() -> None:
    global _kept
    _kept = None


os.register_at_fork(after_in_child=_forget)  # workers of the parent serve no child
