"""Imported once by the process that all workers are forked from; imports only, nothing else may run here.

But for one thing: that process is the last to end, even if the engine was killed, and removes its own socket then. The
workers do not: they end without `atexit`.
"""

import atexit
import ctypes
import shutil
import sys
from multiprocessing import forkserver
from pathlib import Path

import numpy  # noqa: F401
import torch  # noqa: F401

import fedlearn.engine.embedded.worker
import fedlearn.models.torch_model  # noqa: F401


def _forget_library_code() -> None:
    """Drop the pages of accelerator libraries' code that the import has touched: 100 MB that nobody needs on a CPU.

    They are unchanged pages of files, so whoever does need one gets it back from the file.
    """
    libc = ctypes.CDLL(None)
    dont_need = 4  # MADV_DONTNEED, linux/mman.h
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, rights, _, _, _, *path = line.split(maxsplit=5)
        if rights == "r-xp" and path and "/nvidia/" in path[0]:
            start, stop = (int(bound, 16) for bound in bounds.split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), dont_need)


if sys.platform == "linux":
    _forget_library_code()


@atexit.register
def _remove_socket() -> None:
    address = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined]
    if forkserver._forkserver._forkserver_pid is not None:  # type: ignore[attr-defined]
        return  # this is the engine, where something has imported this module
    if address and Path(address).parent.name.startswith("pymp-"):  # the folder that multiprocessing made for it
        shutil.rmtree(Path(address).parent, ignore_errors=True)
