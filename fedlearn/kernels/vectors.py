"""Innermost loops on vectors, written in LLVM's instructions: numba cannot say which sums stay in registers.

A *tile* is the number of sums that fit the processor's registers, all in one loop. So each loaded number is multiplied
several times, and the processor's multipliers are busy. Addresses are integers, as `array.ctypes.data`; counts, strides
and offsets count numbers, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

FEATURES = cpu_target.target_context.codegen().magic_tuple()[2]
"""Features of the processor that numba compiles for: "+avx2,+fma,..."."""
LANES = 16 if "+avx512f" in FEATURES else 8

CUT = 4
"""Stored in place of the index of the largest of four numbers where the floor is larger than all of them."""

NUMBER, INTEGER = ir.FloatType(), ir.IntType(64)


class _Writer:
    """Writer of instructions for vectors of this many lanes."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.vector_type = ir.VectorType(NUMBER, lanes)
        if lanes == 16:  # by default LLVM uses half of an AVX-512 register
            for wish in ("prefer-vector-width", "min-legal-vector-width"):
                set.add(builder.function.attributes, f'"{wish}"="512"')

    def pointer(self, address: Any, kind: Any = NUMBER) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def at(self, pointer: Any, index: Any) -> Any:
        """Return the pointer to the number at an index."""
        return self.builder.gep(pointer, [INTEGER(index) if isinstance(index, int) else index])

    def number(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self.at(pointer, index))

    def load(self, pointer: Any) -> Any:
        """Return the vector at a pointer, which need not be aligned."""
        loaded = self.builder.load(self.builder.bitcast(pointer, self.vector_type.as_pointer()))
        loaded.align = 4  # bytes
        return loaded

    def store(self, vector: Any, pointer: Any) -> None:
        stored = self.builder.store(vector, self.builder.bitcast(pointer, vector.type.as_pointer()))
        stored.align = 1

    def repeated(self, number: Any) -> Any:
        """Return a vector that repeats one number."""
        nothing = ir.Constant(ir.VectorType(number.type, self.lanes), ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.IntType(32)(0))
        return self.shuffled(one, nothing, [0] * self.lanes)

    def constant(self, value: int) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [value] * self.lanes)

    def plus_product(self, total: Any, one: Any, other: Any) -> Any:
        """Return total + one * other, rounded once if the processor has fused multiply-add."""
        return self.builder.fadd(total, self.builder.fmul(one, other, flags=("contract",)), flags=("contract",))

    def shuffled(self, one: Any, other: Any, lanes: Sequence[int]) -> Any:
        """Return a vector of the given lanes of two vectors; lanes of `other` are numbered after those of `one`."""
        return self.builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def transposed(self, rows: Sequence[Any]) -> list[Any]:
        """Return the eight columns of at most eight rows of eight numbers; missing rows are undefined."""
        nothing = ir.Constant(self.vector_type, ir.Undefined)
        rows = [*rows, *[nothing] * (8 - len(rows))]
        twos = [
            [self.shuffled(rows[r], rows[r + 1], lanes) for r in (0, 2, 4, 6)]
            for lanes in ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
        ]
        fours = [
            [self.shuffled(two[r], two[r + 1], lanes) for r in (0, 2)]
            for two in twos
            for lanes in ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
        ]
        halves = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        return [self.shuffled(one, other, lanes) for lanes in halves for one, other in fours]

    def store_largest(self, four: Sequence[Any], floor: Any, largest_at: Any, place_at: Any) -> None:
        """Store the largest of four numbers in each lane, and its index as a byte.

        As in torch, the first of equal numbers counts, and the last NaN. A largest number that is not above the floor
        becomes the floor, with the index `CUT`; a floor of NaN has no effect.
        """
        builder = self.builder
        largest, place = four[0], self.constant(0)
        for k, number in enumerate(four[1:], start=1):
            is_nan = builder.fcmp_unordered("uno", number, number)
            larger = builder.or_(builder.fcmp_ordered(">", number, largest), is_nan)
            largest = builder.select(larger, number, largest)
            place = builder.select(larger, self.constant(k), place)
        is_cut = builder.fcmp_ordered("<=", largest, floor)
        largest, place = builder.select(is_cut, floor, largest), builder.select(is_cut, self.constant(CUT), place)
        self.store(largest, largest_at)
        self.store(builder.trunc(place, ir.VectorType(ir.IntType(8), self.lanes)), place_at)

    def looped(self, count: Any, values: Sequence[Any], step: Callable[[Any, list[Any]], Sequence[Any]]) -> list[Any]:
        """Return the values after `count` steps (at least one) of a function (index, values) -> values."""
        builder, before = self.builder, self.builder.block
        loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(INTEGER)
        inside = [builder.phi(each.type) for each in values]
        made = list(step(index, list(inside)))
        following = builder.add(index, INTEGER(1))
        for phi, start, back in zip([index, *inside], [INTEGER(0), *values], [following, *made], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(back, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        return made


def adding(rows: int, vectors: int) -> Any:
    """Return a function that adds multiples of tables to a tile of this many rows and vectors."""

    @intrinsic
    def add(_, count, factors, offsets, table, table_stride, out, out_stride):  # type: ignore[no-untyped-def]
        """Add to out[r][v] the sum over i < count (at least one) of factors[i] * table[offsets[i] :][r][v].

        The strides are the distances between rows of the table and of out, in numbers.
        """

        def written(_: Any, builder: Any, __: Any, given: Any) -> Any:
            to = _Writer(builder, LANES)
            count, factors, offsets, table, table_stride, out, out_stride = given
            factors, table, out = (to.pointer(each) for each in (factors, table, out))
            offsets = to.pointer(offsets, INTEGER)
            tile = [(r, v) for r in range(rows) for v in range(vectors)]

            def place(begin: Any, stride: Any, r: int, v: int) -> Any:
                return to.at(to.at(begin, builder.mul(stride, INTEGER(r))), v * LANES)

            def step(i: Any, totals: list[Any]) -> list[Any]:
                begin, factor = to.at(table, to.number(offsets, i)), to.repeated(to.number(factors, i))
                return [
                    to.plus_product(total, to.load(place(begin, table_stride, r, v)), factor)
                    for total, (r, v) in zip(totals, tile, strict=True)
                ]

            ends = [place(out, out_stride, r, v) for r, v in tile]
            for total, end in zip(to.looped(count, [to.load(end) for end in ends], step), ends, strict=True):
                to.store(total, end)

        return types.void(*[types.int64] * 7), written

    return add


def pooling(cells: int, vectors: int, lanes: int) -> Any:
    """Return a function that computes a convolution at cells of 2 x 2 places, and the largest number of each cell.

    The vectors run along the output channels.
    """

    @intrinsic
    def pool(_, image, row, pixel, high, width, filters, bias, floor, pooled, which, apart):  # type: ignore[no-untyped-def]
        """Write the largest number of each cell and its index as a byte: 0, 1 for the places above, 2, 3 below.

        A largest number that is not above the floor becomes the floor, with the index `CUT`; a floor of NaN has no
        effect.

        Parameters: address of the window of the first place in an image; distance between rows of the image, and
        between places; rows of a window (at least one), and numbers in a row (at least one); filters (high, width,
        vectors * lanes), bias (vectors * lanes); the floor; addresses of the outputs, and the distance between cells
        there. Vectors are written whole, from the first cell to the last.
        """

        def written(_: Any, builder: Any, __: Any, given: Any) -> Any:
            to = _Writer(builder, lanes)
            image, row, pixel, high, width, filters, bias, floor, pooled, which, apart = given
            floor = to.repeated(floor)
            image, filters, bias, pooled = (to.pointer(each) for each in (image, filters, bias, pooled))
            which = to.pointer(which, ir.IntType(8))
            columns = [builder.mul(pixel, INTEGER(c)) for c in range(2 * cells)]

            def of_row(r: Any, totals: list[Any]) -> list[Any]:
                above = to.at(image, builder.mul(r, row))
                below = to.at(above, row)
                places = [to.at(each, column) for each in (above, below) for column in columns]
                mine = to.at(filters, builder.mul(builder.mul(r, width), INTEGER(vectors * lanes)))

                def of_number(k: Any, totals: list[Any]) -> list[Any]:
                    weights = to.at(mine, builder.mul(k, INTEGER(vectors * lanes)))
                    loaded = [to.load(to.at(weights, v * lanes)) for v in range(vectors)]
                    made = []
                    for p, place in enumerate(places):
                        number = to.repeated(to.number(place, k))
                        made += [to.plus_product(totals[p * vectors + v], loaded[v], number) for v in range(vectors)]
                    return made

                return to.looped(width, totals, of_number)

            biases = [to.load(to.at(bias, v * lanes)) for v in range(vectors)]
            totals = to.looped(high, biases * (4 * cells), of_row)
            for cell in range(cells):
                four = [2 * cell, 2 * cell + 1, 2 * cells + 2 * cell, 2 * cells + 2 * cell + 1]
                start = builder.mul(apart, INTEGER(cell))
                for v in range(vectors):
                    ends = [to.at(to.at(begin, start), v * lanes) for begin in (pooled, which)]
                    to.store_largest([totals[p * vectors + v] for p in four], floor, *ends)

        return types.void(*[types.int64] * 7, types.float32, *[types.int64] * 3), written

    return pool


def pooling_in_rows(outputs: int) -> Any:
    """Return a function as `pooling` does, at four cells, for at most eight output channels.

    The vectors run along a row of the image. Six channels make twelve sums, as many as fit the registers.
    """

    @intrinsic
    def pool(_, image, row, count, offsets, filters, bias, floor, pooled, which, apart):  # type: ignore[no-untyped-def]
        """Write the largest number of each cell and its index, as `pooling` says.

        Parameters: address of the window of the first place; distance between rows of the image; numbers of a window
        (at least one), and the offset of each; filters (count, outputs), bias (outputs); the floor; addresses of the
        outputs, and the distance between cells there. Each cell is written as eight numbers.
        """

        def written(_: Any, builder: Any, __: Any, given: Any) -> Any:
            to = _Writer(builder, 8)
            image, row, count, offsets, filters, bias, floor, pooled, which, apart = given
            floor = to.repeated(floor)
            image, filters, bias, pooled = (to.pointer(each) for each in (image, filters, bias, pooled))
            offsets, which = to.pointer(offsets, INTEGER), to.pointer(which, ir.IntType(8))

            def step(i: Any, totals: list[Any]) -> list[Any]:
                above = to.at(image, to.number(offsets, i))
                numbers = [to.load(above), to.load(to.at(above, row))]
                weights = to.at(filters, builder.mul(i, INTEGER(outputs)))
                made = []
                for o in range(outputs):
                    weight = to.repeated(to.number(weights, o))
                    made += [to.plus_product(totals[2 * o + r], number, weight) for r, number in enumerate(numbers)]
                return made

            biases = [to.repeated(to.number(bias, o)) for o in range(outputs)]
            totals = to.looped(count, [each for each in biases for _ in range(2)], step)
            above, below = to.transposed(totals[::2]), to.transposed(totals[1::2])
            for cell in range(4):
                start = builder.mul(apart, INTEGER(cell))
                four = [*above[2 * cell : 2 * cell + 2], *below[2 * cell : 2 * cell + 2]]
                to.store_largest(four, floor, to.at(pooled, start), to.at(which, start))

        return types.void(*[types.int64] * 6, types.float32, *[types.int64] * 3), written

    return pool
