"""The embedded engine: worker processes and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedlearn.config import RunConfig


def run(config: RunConfig) -> None:
    """Run to the end; on any way out the workers are ended.

    The process that workers are forked from is started before anything else is imported here: it imports torch in two
    seconds, or numba in one, on another core meanwhile.
    """
    from fedlearn.engine.embedded.forkserver import start

    start(config.model.name)
    from fedlearn.engine.embedded.engine import WarmEngine

    with WarmEngine() as engine:
        engine(config)
