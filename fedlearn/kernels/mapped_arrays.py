"""Arrays in memory that numba does not own: loops over them are machine code without numba's run time.

Numba counts references to its own arrays, and frees them; for these it does neither. Addresses are integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

LINE = 64  # bytes of a line of the processor's cache: a vector that spans two lines takes twice as long
WITHOUT_PYTHON: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""Options of numba: no reference counting, and no exceptions."""


def part(function: Callable[..., Any]) -> Any:
    """Return the function, compiled by numba into the loops that call it; it cannot return arrays."""
    return numba.njit(function, **WITHOUT_PYTHON)


def arrays_of(number: Any) -> Any:
    """Return a function of an address and a shape (a tuple) that returns a contiguous array of this type of number."""

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
