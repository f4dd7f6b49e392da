"""Imports torch, for workers that train networks; it takes a second or two."""

import ctypes
import sys
from pathlib import Path

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.models.torch.torch_model  # noqa: F401


def _forget_library_code() -> None:
    """Drop the pages of libraries' code that importing has touched and that training on a CPU does not need.

    These are 100 MB of accelerators' libraries, and 50 MB of the compiler of loops, if the model uses it. The pages are
    unchanged pages of files, so the system reads a page again when it is needed.
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
