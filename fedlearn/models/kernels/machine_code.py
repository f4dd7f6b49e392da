"""The loops as machine code, kept in the cache and run without numba, which takes a third of a second to import.

An entry is what numba has compiled (`compiling.py`) of the texts beside this file, for one kind of processor. It is
compared with its checksum when it is read; where it cannot be kept, each process that needs it compiles it anew.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import llvmlite.binding as llvm
import numpy as np
from torch import Tensor

from fedlearn.data.cache import Arrays, cached, checked
from fedlearn.errors import FedlearnError

HERE = Path(__file__).parent
SOURCES = ("memory.py", "vectors.py", "loops.py", "compiling.py")
TENSORS = {"convolve_and_pool": 5, "weigh": 5, "spread": 4}
"""How many each loop takes."""
LINE = 64  # bytes of a line of the processor's cache; that of `memory.py`, which imports numba

Sizes = tuple[int, int, int, int, int, int, int, int, int, bool]
"""B, H, W, C, O, a filter's height and width, padding above and left; whether a relu follows."""
SIZES = len(get_args(Sizes))

log = logging.getLogger(__name__)


class Loop:
    """A loop of `loops.py`, called on tensors.

    By numba's rules its machine code is given two addresses more: where the result goes, and where what was raised,
    which is never anything.

    Parameters
    ----------
    engine
        Owns the memory in which its machine code is.
    name
        Its own.
    tensors
        How many it takes.
    """

    def __init__(self, engine: Any, name: str, tensors: int) -> None:
        given = [ctypes.c_int64] * (2 + SIZES + tensors + 1)
        self._engine = engine
        self._call: Any = ctypes.CFUNCTYPE(ctypes.c_int, *given)(engine.get_function_address(name))
        self._tensors = tensors
        self._ends = np.zeros(2, np.int64)  # nobody reads it
        self._result, self._raised = (self._ends.ctypes.data + 8 * k for k in range(2))
        self._needed = cache(self._bytes_needed)

    def __call__(self, sizes: Sizes, nodes: int, *tensors: Tensor) -> None:
        """Run it for each node; their tensors lie one behind another, each in order."""
        memory = _scratch.of(self._needed(sizes))
        starts = [each.data_ptr() for each in tensors]
        self._call(self._result, self._raised, *sizes, *starts, memory)
        for _ in range(nodes - 1):
            starts = [start + each.stride(0) * each.itemsize for start, each in zip(starts, tensors, strict=True)]
            self._call(self._result, self._raised, *sizes, *starts, memory)

    def _bytes_needed(self, sizes: Sizes) -> int:
        needed = np.zeros(1, np.int64)
        self._call(needed.ctypes.data, self._raised, *sizes, *[0] * self._tensors, 0)
        return int(needed[0])


class _Scratch(threading.local):
    """Memory of a thread that loops may use; it is kept, as that of a fresh one is touched for the first time."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)
        self._start = 0

    def of(self, size: int) -> int:
        """Return where so many bytes are, at the beginning of a line of the processor's cache."""
        if len(self._bytes) < size + LINE:
            self._bytes = np.empty(size + LINE, np.uint8)
            self._start = -(-self._bytes.ctypes.data // LINE) * LINE
        return self._start


_scratch = _Scratch()


@cache
def loops() -> Mapping[str, Loop]:
    """Return the loops by their names; where they have never been compiled, in seconds."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for code in _code().values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.tobytes()))
    engine.finalize_object()
    return {name: Loop(engine, name, tensors) for name, tensors in TENSORS.items()}


def _code() -> Arrays:
    """Return the object file of each loop: that of the cache, or one that is put there, if it can be."""
    try:
        with checked():
            return cached("loops", _key(), _compiled).arrays
    except FedlearnError as error:
        log.warning("compiled loops are not kept, and made anew in each process: %s", error)
        return _compiled()


@cache
def _compiled() -> Arrays:
    from fedlearn.models.kernels.compiling import compiled

    return compiled()


def _key() -> str:
    """Return all that machine code depends on: what is compiled, by what, for which processor."""
    compilers = [f"{name} {version(name)}" for name in ("numba", "llvmlite")]
    told = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")]
    processor = [llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    sources = sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()
    return " ".join([*compilers, *told, *processor, sources])
