"""The embedded engine: worker processes and shared memory."""

from fedlearn.config import RunConfig
from fedlearn.config.presets import TREE_MODELS


def run(config: RunConfig) -> None:
    """Run to the end.

    The process that workers are forked from is started before anything else is imported: it takes its two seconds to
    import torch, or one to import numba, on another core meanwhile.
    """
    from fedlearn.engine.embedded.forkserver import PRELOAD, PRELOAD_TREES, start

    start(PRELOAD_TREES if config.model.name in TREE_MODELS else PRELOAD)
    from fedlearn.engine.embedded.engine import run_embedded

    run_embedded(config)
