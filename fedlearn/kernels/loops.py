"""Loops of `pooled_convolution.py`, compiled by numba; a module of its own, as it imports numba.

Images are contiguous (H, W, C), so that a row of a filter's window is contiguous, too.

Forwards, vectors run along the output channels, and each number of the window multiplies them. With few output channels
they run along a row of the image, and each weight multiplies them. The largest of four places is kept. Backwards only
the kept places have a gradient, a quarter of all, and half of these after a relu: each adds its window, times the
gradient, to the gradient of its filter, and the filter, times the gradient, to that of its window. Torch's convolution
knows nothing of the pooling, and multiplies all the zeros, too.

The arguments of a loop are the sizes, then addresses: inputs, outputs, and scratch memory. A loop returns the number of
bytes of scratch memory that it needs; with an address of 0 for it, a loop does nothing else.

Shapes: B batch, C channels, H height, W width; O output channels, h, w output height and width after pooling; R rows of
a filter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled
from fedlearn.kernels.mapped_arrays import LINE, WITHOUT_PYTHON, arrays_of, part
from fedlearn.kernels.vectors import CUT, LANES, adding, pooling, pooling_in_rows

Array = NDArray[Any]
Compiled = TypeVar("Compiled", bound=Callable[..., int])
SIZES = 10  # B, H, W, C, O, height and width of a filter, padding above and left; whether a relu follows
WIDTH = 2 * LANES  # numbers in a row of a tile
NARROW = 8  # most output channels that one vector of eight lanes holds
FEW = 6  # most output channels for which vectors may run along the rows of an image
CELLS = 4  # cells of 2 x 2 places that a vector along a row holds
CACHE = 4096  # numbers of several small images that stay in the processor's first cache

_add_three, _add_three_single, _add_five, _add_five_single = adding(3, 2), adding(3, 1), adding(5, 2), adding(5, 1)
_pool_narrow, _pool_single, _pool_wide = pooling(2, 1, NARROW), pooling(2, 1, LANES), pooling(1, 2, LANES)
_pool_in_rows = pooling_in_rows(FEW)
_float32, _float64, _uint8, _uint32, _int64, _uint64 = (
    arrays_of(each) for each in (types.float32, types.float64, types.uint8, types.uint32, types.int64, types.uint64)
)


def _loop(tensors: int) -> Callable[[Compiled], Compiled]:
    """Return a decorator that compiles a loop of this many addresses of tensors; it runs without the GIL."""
    given = [types.int64] * (SIZES + tensors + 1)
    return compiled(types.int64(*given), nogil=True, **WITHOUT_PYTHON)


@part
def _behind(address: int, count: int, itemsize: int) -> int:
    """Return the address of the first line of the processor's cache after `count` numbers of `itemsize` bytes."""
    return (address + count * itemsize + LINE - 1) // LINE * LINE


@part
def _pooled_sizes(height: int, width: int, high: int, wide: int, above: int, left: int) -> tuple[int, int]:
    """Return h and w, the height and width after pooling."""
    return (height + 2 * above - high + 1) // 2, (width + 2 * left - wide + 1) // 2


@part
def _copy(image: Array, first: int, channels: int, above: int, left: int, padded: Array, is_back: bool) -> None:
    """Copy channels of an image (H, W, C) into its padded copy, or back; missing channels are left out."""
    height, width, inside = image.shape
    stride = (width + 2 * left) * channels
    for i in range(height):
        there = padded[(above + i) * stride + left * channels :]
        if channels == inside:
            row = _float32(image[i].ctypes.data, (width * inside,))
            source, target = (there, row) if is_back else (row, there)
            for j in range(width * inside):
                target[j] = source[j]
        else:
            for j in range(width):
                for c in range(min(channels, inside - first)):
                    if is_back:
                        image[i, j, first + c] = there[j * channels + c]
                    else:
                        there[j * channels + c] = image[i, j, first + c]


@part
def _pad_planes(image: Array, above: int, left: int, padded: Array) -> None:
    """Copy an image (H, W, C) into a padded copy (H, C, W), in which each row of a channel is contiguous."""
    height, width, inside = image.shape
    plane = width + 2 * left
    for i in range(height):
        row = padded[(above + i) * inside * plane + left :]
        for c in range(inside):
            for j in range(width):
                row[c * plane + j] = image[i, j, c]


@part
def _blocks(inside: int, wide: int) -> tuple[int, int, int]:
    """Return the number of blocks of channels, the channels of a block, and the tiles in a row of a window."""
    blocks = -(-inside // WIDTH)
    channels = -(-inside // blocks)
    return blocks, channels, -(-wide * channels // WIDTH)


@part
def _add(
    high: int, span: int, count: int, factors: int, offsets: int, table: int, table_stride: int, out: int,
    out_stride: int,
) -> None:  # fmt: skip
    """Add to a tile of (high, span) numbers, as `adding` says; a span that one vector holds takes half of the time."""
    given = (count, factors, offsets, table, table_stride, out, out_stride)
    if high == 3:
        if span == LANES:
            _add_three_single(*given)
        else:
            _add_three(*given)
    elif span == LANES:
        _add_five_single(*given)
    else:
        _add_five(*given)


@part
def _write_corners(rows: int, columns: int, stride: int, channels: int, begins: Array, later: Array) -> None:
    """Write the offset of the window of each cell's first place, and the distances of its four places from it.

    The fifth distance is that of `CUT`, which has no window; it is 0.
    """
    for i in range(rows):
        for j in range(columns):
            begins[i * columns + j] = 2 * (i * stride + j * channels)
    later[0], later[1], later[2], later[3], later[4] = 0, channels, stride, stride + channels, 0


@part
def _pack(filters: Array, channels: int, packed: Array) -> None:
    """Write filters (O, C, R, wide) as (groups, R * wide * C, channels), filled up with zeros."""
    outside, inside, high, wide = filters.shape
    packed[:] = 0
    for o in range(outside):
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    packed[o // channels, (r * wide + k) * inside + c, o % channels] = filters[o, c, r, k]


@_loop(5)
def convolve_and_pool(
    batch: int, height: int, width: int, inside: int, outside: int, high: int, wide: int, above: int, left: int,
    relu: int, x_at: int, filters_at: int, bias_at: int, pooled_at: int, which_at: int, memory: int,
) -> int:  # fmt: skip
    """Write the largest number of each cell of a convolution of images (B, H, W, C), (B, h, w, O), and its index.

    Filters (O, C, R, wide), bias (O); images are padded by zeros above and below, left and right. The indices are
    uint8.
    """
    rows, columns = _pooled_sizes(height, width, high, wide, above, left)
    # compares the number of vectors of sums in both ways
    in_rows = outside <= FEW and 3 * -(-columns // CELLS) <= 2 * -(-columns // 2)
    is_narrow, is_single = outside <= NARROW, outside <= LANES
    channels, cells = (NARROW, 2) if is_narrow else (LANES, 2) if is_single else (2 * LANES, 1)
    groups = -(-outside // channels)
    stride = (width + 2 * left) * inside
    numbers = high * wide * inside
    size = (height + 2 * above) * stride + (2 * CELLS if in_rows else 2 * cells * inside)  # a tile reaches past the end
    of_group = FEW if in_rows else channels
    packed_at = _behind(memory, groups * channels, 4)
    padded_at = _behind(packed_at, groups * numbers * of_group, 4)
    offsets_at = _behind(padded_at, size, 4)
    end: int = _behind(offsets_at, numbers, 8)
    if not memory:
        return end

    floor = np.float32(0 if relu else np.nan)
    biases, bias = _float32(memory, (groups * channels,)), _float32(bias_at, (outside,))
    biases[:] = 0
    for o in range(outside):
        biases[o] = bias[o]
    packed = _float32(packed_at, (groups, numbers, of_group))
    _pack(_float32(filters_at, (outside, inside, high, wide)), of_group, packed)
    padded, images = _float32(padded_at, (size,)), _float32(x_at, (batch, height, width, inside))
    padded[:] = 0
    if in_rows:
        plane = width + 2 * left
        offsets = _int64(offsets_at, (numbers,))
        for r in range(high):
            for k in range(wide):
                for c in range(inside):
                    offsets[(r * wide + k) * inside + c] = r * stride + c * plane + k
        for n in range(batch):
            _pad_planes(images[n], above, left, padded)
            for i in range(rows):
                for j in range(0, columns, CELLS):  # later tiles overwrite what a tile writes too much
                    begin = ((n * rows + i) * columns + j) * outside
                    _pool_in_rows(
                        padded_at + 4 * 2 * (i * stride + j), stride, numbers, offsets_at, packed_at, memory, floor,
                        pooled_at + 4 * begin, which_at + begin, outside,
                    )  # fmt: skip
        return end
    for n in range(batch):
        _copy(images[n], 0, inside, above, left, padded, False)
        for g in range(groups - 1, -1, -1):  # later tiles overwrite what a tile writes too much
            for i in range(rows):
                for j in range(0, columns, cells):
                    begin = ((n * rows + i) * columns + j) * outside + g * channels
                    tile = (
                        padded_at + 4 * (2 * i * stride + 2 * j * inside), stride, inside, high, wide * inside,
                        packed_at + 4 * g * numbers * channels, memory + 4 * g * channels, floor,
                        pooled_at + 4 * begin, which_at + begin, outside,
                    )  # fmt: skip
                    if is_narrow:
                        _pool_narrow(*tile)
                    elif is_single:
                        _pool_single(*tile)
                    else:
                        _pool_wide(*tile)
    return end


@part
def _sum(numbers: Array) -> float:
    """Return the sum in float64, as four independent partial sums."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = len(numbers) // 4 * 4
    for i in range(0, whole, 4):
        one, two = one + numbers[i], two + numbers[i + 1]
        three, four = three + numbers[i + 2], four + numbers[i + 3]
    for i in range(whole, len(numbers)):
        one += numbers[i]
    total: float = one + two + (three + four)
    return total


@_loop(5)
def weigh(
    batch: int, height: int, width: int, inside: int, outside: int, high: int, wide: int, above: int, left: int,
    _: int, x_at: int, gradient_at: int, which_at: int, of_filters_at: int, of_bias_at: int, memory: int,
) -> int:  # fmt: skip
    """Write the gradients of filters (O, C, R, wide) and bias (O), from the gradient of the output (B, h, w, O)."""
    rows, columns = _pooled_sizes(height, width, high, wide, above, left)
    cells = rows * columns
    blocks, channels, tiles = _blocks(inside, wide)
    span = LANES if wide * channels <= LANES else WIDTH
    stride = (width + 2 * left) * channels
    size = (height + 2 * above) * stride
    together = max(1, CACHE // size)
    most = together * cells
    of_tile = outside * high * span
    corners_at = _behind(memory, together * size + span, 4)  # a tile reaches past the end
    later_at = _behind(corners_at, cells, 8)
    held_at = _behind(later_at, CUT + 1, 8)
    factors_at = _behind(held_at, blocks * tiles * of_tile, 4)
    offsets_at = _behind(factors_at, outside * most, 4)
    counts_at = _behind(offsets_at, outside * most, 8)
    totals_at = _behind(counts_at, outside, 8)
    end: int = _behind(totals_at, outside, 8)
    if not memory:
        return end

    padded = _float32(memory, (together * size + span,))
    padded[:] = 0
    corners, later = _int64(corners_at, (cells,)), _int64(later_at, (CUT + 1,))
    _write_corners(rows, columns, stride, channels, corners, later)
    held = _float32(held_at, (blocks, tiles, outside, high, span))
    held[:] = 0
    # For each filter: the places that have a gradient, and their number so far.
    factors, offsets = _uint32(factors_at, (outside, most)), _int64(offsets_at, (outside, most))
    counts, totals = _uint64(counts_at, (outside,)), _float64(totals_at, (outside,))
    totals[:] = 0
    images = _float32(x_at, (batch, height, width, inside))
    bits, where = _uint32(gradient_at, (batch * cells * outside,)), _uint8(which_at, (batch * cells * outside,))
    for begin in range(0, batch, together):
        some = min(together, batch - begin)
        counts[:] = 0
        at = np.uint64(begin * cells * outside)
        for m in range(some):
            for p in range(cells):
                corner = m * size + corners[p]
                for o in range(outside):
                    factor, place, count = bits[at], where[at], counts[o]
                    factors[o, count], offsets[o, count] = factor, corner + later[place]
                    counts[o] = count + np.uint64(((factor << np.uint32(1)) != 0) & (place != CUT))
                    at += np.uint64(1)
        for o in range(outside):
            totals[o] += _sum(_float32(factors_at + 4 * o * most, (np.int64(counts[o]),)))
        for b in range(blocks):
            for m in range(some):
                _copy(images[begin + m], b * channels, channels, above, left, padded[m * size :], False)
            for t in range(tiles):
                for o in range(outside):
                    if counts[o]:
                        _add(
                            high, span, counts[o], factors_at + 4 * o * most, offsets_at + 8 * o * most,
                            memory + 4 * t * span, stride,
                            held_at + 4 * ((b * tiles + t) * of_tile + o * high * span), span,
                        )  # fmt: skip
    of_filters, of_bias = _float32(of_filters_at, (outside, inside, high, wide)), _float32(of_bias_at, (outside,))
    for o in range(outside):
        of_bias[o] = totals[o]
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    place = k * channels + c % channels
                    of_filters[o, c, r, k] = held[c // channels, place // span, o, r, place % span]
    return end


@_loop(4)
def spread(
    batch: int, height: int, width: int, inside: int, outside: int, high: int, wide: int, above: int, left: int,
    _: int, gradient_at: int, which_at: int, filters_at: int, of_x_at: int, memory: int,
) -> int:  # fmt: skip
    """Write the gradients of images (B, H, W, C), from the gradient of the output (B, h, w, O)."""
    rows, columns = _pooled_sizes(height, width, high, wide, above, left)
    cells = rows * columns
    blocks, channels, tiles = _blocks(inside, wide)
    stride = (width + 2 * left) * channels
    size = (height + 2 * above) * stride + WIDTH  # a tile reaches past the end
    of_tile = outside * high * WIDTH
    corners_at = _behind(memory, size, 4)
    later_at = _behind(corners_at, cells, 8)
    packed_at = _behind(later_at, CUT + 1, 8)
    factors_at = _behind(packed_at, blocks * tiles * of_tile, 4)
    offsets_at = _behind(factors_at, cells * (CUT + 1) * outside, 4)
    counts_at = _behind(offsets_at, cells * (CUT + 1) * outside, 8)
    end: int = _behind(counts_at, cells * (CUT + 1), 8)
    if not memory:
        return end

    corners, later = _int64(corners_at, (cells,)), _int64(later_at, (CUT + 1,))
    _write_corners(rows, columns, stride, channels, corners, later)
    padded, packed = _float32(memory, (size,)), _float32(packed_at, (blocks, tiles, outside, high, WIDTH))
    packed[:] = 0
    filters = _float32(filters_at, (outside, inside, high, wide))
    for o in range(outside):
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    place = k * channels + c % channels
                    packed[c // channels, place // WIDTH, o, r, place % WIDTH] = filters[o, c, r, k]
    # For each place of a cell, and last for `CUT`: the filters that have a gradient there, and their number.
    factors, offsets = _uint32(factors_at, (cells, CUT + 1, outside)), _int64(offsets_at, (cells, CUT + 1, outside))
    counts = _uint64(counts_at, (cells, CUT + 1))
    images = _float32(of_x_at, (batch, height, width, inside))
    bits, where = _uint32(gradient_at, (batch * cells * outside,)), _uint8(which_at, (batch * cells * outside,))
    at = np.uint64(0)
    for n in range(batch):
        counts[:] = 0
        for p in range(cells):
            for o in range(outside):
                factor, place = bits[at], where[at]
                count = counts[p, place]
                factors[p, place, count], offsets[p, place, count] = factor, o * high * WIDTH
                counts[p, place] = count + np.uint64((factor << np.uint32(1)) != 0)
                at += np.uint64(1)
        for b in range(blocks):
            padded[:] = 0
            for t in range(tiles):
                for p in range(cells):
                    for k in range(CUT):
                        if counts[p, k]:
                            listed = (p * (CUT + 1) + k) * outside
                            tile = (
                                counts[p, k], factors_at + 4 * listed, offsets_at + 8 * listed,
                                packed_at + 4 * (b * tiles + t) * of_tile, WIDTH,
                                memory + 4 * (corners[p] + later[k] + t * WIDTH), stride,
                            )  # fmt: skip
                            if high == 3:
                                _add_three(*tile)
                            else:
                                _add_five(*tile)
            _copy(images[n], b * channels, channels, above, left, padded, True)
    return end
