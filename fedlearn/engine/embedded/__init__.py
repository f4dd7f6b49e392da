"""The embedded engine: worker processes and shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from fedlearn.engine.engine_type import Engine

if TYPE_CHECKING:
    from fedlearn.config import RunConfig


def run(config: RunConfig) -> None:
    """Run to the end; on any way out the workers are ended."""
    with warm() as engine:
        engine(config)


@contextmanager
def warm() -> Iterator[Callable[[RunConfig], None]]:
    """Yield a function that executes runs on the same workers; end the workers with the block.

    The process that workers are forked from is started before anything else is imported here: it imports torch in two
    seconds, or numba in one, on another core meanwhile.
    """
    from fedlearn.engine.embedded.forkserver import start

    with ExitStack() as stack:

        @cache
        def engine() -> Callable[[RunConfig], None]:
            from fedlearn.engine.embedded.engine import WarmEngine

            return stack.enter_context(WarmEngine())

        def execute(config: RunConfig) -> None:
            start(config.model.name)
            engine()(config)

        yield execute


EMBEDDED = Engine(run, stacks=True, forks=True, warm=warm)
