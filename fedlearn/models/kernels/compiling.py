"""The loops compiled by numba, to machine code that needs nothing of numba's when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import types
from numba.core.registry import cpu_target
from numpy.typing import NDArray

from fedlearn.models.kernels.loops import convolve_and_pool, spread, weigh
from fedlearn.models.kernels.memory import WITHOUT_PYTHON

FROM_C = {"memset", "memcpy", "memmove"}
"""What machine code may call: whatever process it is in, it has these."""


def compiled() -> dict[str, NDArray[np.uint8]]:
    """Return each loop as an object file that has it under its own name; this takes seconds."""
    return {loop.__name__: np.frombuffer(_compiled(loop), np.uint8) for loop in (convolve_and_pool, weigh, spread)}


def _compiled(loop: Callable[..., int]) -> bytes:
    signature = types.int64(*[types.int64] * len(inspect.signature(loop).parameters))
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **WITHOUT_PYTHON}
    made: Any = numba.njit(signature, **options)(loop)
    module = llvm.parse_assembly(made.inspect_llvm(signature.args))
    called = {each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")}
    if called - FROM_C:
        raise RuntimeError(f"{loop.__name__} calls {sorted(called - FROM_C)}, which only processes with numba have")
    module.get_function(made.overloads[signature.args].fndesc.mangled_name).name = loop.__name__
    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=processor, features=features, opt=3, reloc="default", codemodel="jitdefault"
    )
    code: bytes = machine.emit_object(module)
    return code
