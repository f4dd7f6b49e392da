"""What workers need that train networks: torch, in a second or two."""

import ctypes
import sys
from pathlib import Path

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.models.torch_model  # noqa: F401


def _forget_library_code() -> None:
    """Drop the pages of libraries' code that importing has touched, and that nobody needs to train on a CPU.

    They are 100 MB of accelerators', and 50 of what compiles loops, where a model has such. They are unchanged
    pages of files, so whoever does need one gets it back from the file.
    """
    libc = ctypes.CDLL(None)
    dont_need = 4  # MADV_DONTNEED, linux/mman.h
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, rights, _, _, _, *path = line.split(maxsplit=5)
        if rights == "r-xp" and path and any(f"/{library}/" in path[0] for library in ("nvidia", "llvmlite")):
            start, stop = (int(bound, 16) for bound in bounds.split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), dont_need)


if sys.platform == "linux":
    _forget_library_code()
