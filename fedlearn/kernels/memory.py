"""Arrays in memory that is somebody else's: loops over them are machine code that needs nothing of numba's.

Numba would count who holds an array of its own, and free it. Addresses are integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

LINE = 64  # bytes of a line of the processor's cache: a vector that lies in two takes twice as long
WITHOUT_PYTHON: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""For numba: nothing is counted, and nothing raised."""


def part(function: Callable[..., Any]) -> Any:
    """Have numba compile a function into those that call it. Of arrays it can return none."""
    return numba.njit(function, **WITHOUT_PYTHON)


def arrays_of(number: Any) -> Any:
    """Return a function that makes an array of such numbers, in order, of an address and a shape (a tuple)."""

    @intrinsic
    def array_at(_, address, shape):  # type: ignore[no-untyped-def]
        kind = types.Array(number, len(shape), "C")

        def written(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            address, lengths = given[0], cgutils.unpack_tuple(builder, given[1])  # type: ignore[no-untyped-call]
            kinds = signature.args[1]
            lengths = [context.cast(builder, each, its, types.intp) for each, its in zip(lengths, kinds, strict=True)]
            itemsize = context.get_constant(types.intp, number.bitwidth // 8)
            strides = [itemsize]
            for length in reversed(lengths[1:]):
                strides.insert(0, builder.mul(strides[0], length))
            made = make_array(kind)(context, builder)  # type: ignore[no-untyped-call]
            parts = {"data": builder.inttoptr(address, made.data.type), "shape": lengths, "strides": strides}
            populate_array(made, **parts, itemsize=itemsize, meminfo=None)  # type: ignore[no-untyped-call]
            return made._getvalue()

        return kind(types.int64, shape), written

    return array_at
