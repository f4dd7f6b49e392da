"""Imported by the process that all workers are forked from.

That process is the last to end, even if the engine was killed, and removes its own socket at its end. Workers remove no
socket, as they end without `atexit`.
"""

import atexit
import shutil
from multiprocessing import forkserver
from pathlib import Path


@atexit.register
def _remove_socket() -> None:
    address = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined]
    if forkserver._forkserver._forkserver_pid is not None:  # type: ignore[attr-defined]
        return  # this is the engine, where something has imported this module
    if address and Path(address).parent.name.startswith("pymp-"):  # the folder that multiprocessing made for it
        shutil.rmtree(Path(address).parent, ignore_errors=True)
