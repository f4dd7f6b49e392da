"""Imported once by the process that all workers are forked from; imports only, nothing else may run here.

But for one thing: that process is the last to end, even if the engine was killed, and removes its own socket then. The
workers do not: they end without `atexit`.
"""

import atexit
import shutil
from multiprocessing import forkserver
from pathlib import Path

import numpy  # noqa: F401
import torch  # noqa: F401

import fedlearn.engine.embedded.worker
import fedlearn.models.torch_model  # noqa: F401


@atexit.register
def _remove_socket() -> None:
    address = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined]
    if address and Path(address).parent.name.startswith("pymp-"):  # the folder that multiprocessing made for it
        shutil.rmtree(Path(address).parent, ignore_errors=True)
