"""The embedded engine: worker processes and shared memory."""

from fedlearn.config import RunConfig


def run(config: RunConfig) -> None:
    """Run to the end.

    The process that workers are forked from is started before anything else is imported: it takes its two seconds to
    import torch on another core meanwhile.
    """
    from fedlearn.engine.embedded.forkserver import start

    start()
    from fedlearn.engine.embedded.engine import run_embedded

    run_embedded(config)
