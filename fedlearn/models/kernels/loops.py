"""The loops of `pooled_convolution.py`; a module of its own, as it imports numba.

An image lies as its rows, pixels and channels do, (H, W, C): a row of a filter's window is a run of numbers.

Forwards, vectors lie along the channels that come out, and each number of the window multiplies them; where few come
out, along a row of the image, and each weight multiplies them. Of four places the largest stays. Backwards only those
places have a gradient, a quarter of all, and after a relu half of these: the window of each is added to its filter's
gradient, and the filter to the window's, times that number. Torch's convolution, which knows of no pooling behind it,
multiplies all the zeros, too.

Shapes: B batch, C channels, H height, W width; O channels that come out, h, w their height and width once pooled; R
rows of a filter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.compiled import compiled, part
from fedlearn.models.kernels.vectors import CUT, LANES, adding, pooling, pooling_in_rows

Array = NDArray[Any]
WIDTH = 2 * LANES  # numbers of a tile's row
NARROW = 8  # channels: up to so many come out in one vector of so many lanes
FEW = 6  # channels: for up to so many, vectors lie along the rows, if these fill them better
CELLS = 4  # of two times two places: so many lie in a vector along the rows
LINE = 16  # numbers
CACHE = 4096  # numbers: so many of several small images stay in the processor's first cache

_add_three, _add_five = adding(3, 2), adding(5, 2)
_pool_narrow, _pool_wide = pooling(2, 1, NARROW), pooling(1, 2, LANES)
_pool_in_rows = pooling_in_rows(FEW)

IMAGES, PLACES = "float32[:,:,:,::1]", "uint8[:,:,:,::1]"


@part
def _copy(image: Array, first: int, channels: int, above: int, left: int, padded: Array, is_back: bool) -> None:
    """Copy channels of an image (H, W, C) to where zeros lie around it, or back; those that it has not are left out."""
    height, width, inside = image.shape
    numbers, stride = image.reshape(height, width * inside), (width + 2 * left) * channels
    for i in range(height):
        row, there = numbers[i], padded[(above + i) * stride + left * channels :]
        source, target = (there, row) if is_back else (row, there)
        if channels == inside:
            for j in range(width * inside):
                target[j] = source[j]
        else:
            for j in range(width):
                for c in range(min(channels, inside - first)):
                    mine, theirs = j * inside + first + c, j * channels + c
                    target[mine if is_back else theirs] = source[theirs if is_back else mine]


@part
def _pad_planes(image: Array, above: int, left: int, padded: Array) -> None:
    """Copy an image (H, W, C) to where zeros lie around it, as (H, C, W): each row of a channel is a run of numbers."""
    height, width, inside = image.shape
    plane = width + 2 * left
    for i in range(height):
        row = padded[(above + i) * inside * plane + left :]
        for c in range(inside):
            for j in range(width):
                row[c * plane + j] = image[i, j, c]


@part
def _zeros(count: int) -> Array:
    """Return zeros that begin at a line of the processor's cache: a vector that lies in two takes twice as long."""
    made = np.zeros(count + LINE, np.float32)
    return made[-(made.ctypes.data // 4) % LINE :][:count]


@part
def _blocks(inside: int, wide: int) -> tuple[int, int, int]:
    """Return how many blocks of channels there are, how many are in each, and the tiles in a row of a window."""
    blocks = -(-inside // WIDTH)
    channels = -(-inside // blocks)
    return blocks, channels, -(-wide * channels // WIDTH)


@part
def _corners(rows: int, columns: int, stride: int, channels: int) -> tuple[Array, Array]:
    """Return where the window of each cell's first place begins, and how much later those of its four places do.

    The last is that of `CUT`, which is anywhere.
    """
    begins = np.empty(rows * columns, np.int64)
    for i in range(rows):
        for j in range(columns):
            begins[i * columns + j] = 2 * (i * stride + j * channels)
    return begins, np.array([0, channels, stride, stride + channels, 0])


@part
def _packed(filters: Array, groups: int, channels: int) -> Array:
    """Return filters (O, C, R, wide) as (groups, R * wide * C, channels), with zeros where there are no more."""
    outside, inside, high, wide = filters.shape
    numbers = high * wide * inside
    packed: Array = _zeros(groups * numbers * channels).reshape(groups, numbers, channels)
    for o in range(outside):
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    packed[o // channels, (r * wide + k) * inside + c, o % channels] = filters[o, c, r, k]
    return packed


@part
def _pool_along_rows(
    x: Array, filters: Array, biases: Array, above: int, left: int, floor: float, pooled: Array, which: Array
) -> None:
    """Do what `convolve_and_pool` does, for a few channels that come out: vectors lie along the rows of images."""
    batch, height, width, inside = x.shape
    outside, _, high, wide = filters.shape
    _, rows, columns, _ = pooled.shape
    packed = _packed(filters, 1, FEW)
    plane = width + 2 * left
    stride = inside * plane
    offsets = np.empty(high * wide * inside, np.int64)
    for r in range(high):
        for k in range(wide):
            for c in range(inside):
                offsets[(r * wide + k) * inside + c] = r * stride + c * plane + k
    padded = np.zeros((height + 2 * above) * stride + 2 * CELLS, np.float32)  # a tile reaches past the end
    for n in range(batch):
        _pad_planes(x[n], above, left, padded)
        for i in range(rows):
            for j in range(0, columns, CELLS):  # what a tile writes too much, later ones write over
                begin = ((n * rows + i) * columns + j) * outside
                _pool_in_rows(
                    padded.ctypes.data + 4 * 2 * (i * stride + j), stride, len(offsets), offsets.ctypes.data,
                    packed.ctypes.data, biases.ctypes.data, floor,
                    pooled.ctypes.data + 4 * begin, which.ctypes.data + begin, outside,
                )  # fmt: skip


@compiled(f"void({IMAGES}, {IMAGES}, float32[::1], int64, int64, boolean, {IMAGES}, {PLACES})")
def convolve_and_pool(
    x: Array, filters: Array, bias: Array, above: int, left: int, relu: bool, pooled: Array, which: Array
) -> None:
    """Write the largest numbers (B, h, w, O) of each four of a convolution of images (B, H, W, C), and which they are.

    Filters (O, C, R, wide), bias (O); images are padded by zeros above and below, left and right.
    """
    floor = np.float32(0 if relu else np.nan)
    batch, height, width, inside = x.shape
    outside, _, high, wide = filters.shape
    _, rows, columns, _ = pooled.shape
    is_narrow = outside <= NARROW
    channels, cells = (NARROW, 2) if is_narrow else (2 * LANES, 1)
    groups = -(-outside // channels)
    biases = np.zeros(groups * channels, np.float32)
    biases[:outside] = bias
    if outside <= FEW and 3 * -(-columns // CELLS) <= 2 * -(-columns // 2):  # vectors of sums to be made
        _pool_along_rows(x, filters, biases, above, left, floor, pooled, which)
        return
    packed = _packed(filters, groups, channels)
    stride = (width + 2 * left) * inside
    padded = np.zeros((height + 2 * above) * stride + 2 * cells * inside, np.float32)  # a tile reaches past the end
    for n in range(batch):
        _copy(x[n], 0, inside, above, left, padded, False)
        for g in range(groups - 1, -1, -1):  # what a tile writes too much lies where another one writes after it
            for i in range(rows):
                for j in range(0, columns, cells):
                    begin = ((n * rows + i) * columns + j) * outside + g * channels
                    tile = (
                        padded.ctypes.data + 4 * (2 * i * stride + 2 * j * inside), stride, inside, high, wide * inside,
                        packed[g].ctypes.data, biases.ctypes.data + 4 * g * channels, floor,
                        pooled.ctypes.data + 4 * begin, which.ctypes.data + begin, outside,
                    )  # fmt: skip
                    if is_narrow:
                        _pool_narrow(*tile)
                    else:
                        _pool_wide(*tile)


@part
def _sum(numbers: Array) -> float:
    """Return the sum, in float64; of four at a time, as none of these waits for another."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = len(numbers) // 4 * 4
    for i in range(0, whole, 4):
        one, two = one + numbers[i], two + numbers[i + 1]
        three, four = three + numbers[i + 2], four + numbers[i + 3]
    for i in range(whole, len(numbers)):
        one += numbers[i]
    total: float = one + two + (three + four)
    return total


@compiled(f"void({IMAGES}, {IMAGES}, {PLACES}, int64, int64, {IMAGES}, float32[::1])")
def weigh(x: Array, gradient: Array, which: Array, above: int, left: int, of_filters: Array, of_bias: Array) -> None:
    """Write the gradients of filters (O, C, R, wide) and bias (O), of those of what comes out (B, h, w, O)."""
    batch, height, width, inside = x.shape
    outside, _, high, wide = of_filters.shape
    cells = gradient.shape[1] * gradient.shape[2]
    blocks, channels, tiles = _blocks(inside, wide)
    stride = (width + 2 * left) * channels
    size = (height + 2 * above) * stride
    corners, later = _corners(gradient.shape[1], gradient.shape[2], stride, channels)
    together = max(1, CACHE // size)
    padded = _zeros(together * size + WIDTH)  # a tile reaches past the end
    held = _zeros(blocks * tiles * outside * high * WIDTH).reshape(blocks, tiles, outside, high, WIDTH)
    bits, where = gradient.view(np.uint32).reshape(-1), which.reshape(-1)
    # Of each filter: the places that have a gradient, and how many they are so far.
    most = together * cells
    factors, offsets = np.empty((outside, most), np.uint32), np.empty((outside, most), np.int64)
    counts, totals = np.empty(outside, np.uint64), np.zeros(outside)
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
            totals[o] += _sum(factors[o, : counts[o]].view(np.float32))
        for b in range(blocks):
            for m in range(some):
                _copy(x[begin + m], b * channels, channels, above, left, padded[m * size :], False)
            for t in range(tiles):
                for o in range(outside):
                    if counts[o]:
                        tile = (
                            counts[o], factors[o].ctypes.data, offsets[o].ctypes.data,
                            padded.ctypes.data + 4 * t * WIDTH, stride, held[b, t, o].ctypes.data, WIDTH,
                        )  # fmt: skip
                        if high == 3:
                            _add_three(*tile)
                        else:
                            _add_five(*tile)
    of_bias[:] = totals
    for o in range(outside):
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    place = k * channels + c % channels
                    of_filters[o, c, r, k] = held[c // channels, place // WIDTH, o, r, place % WIDTH]


@compiled(f"void({IMAGES}, {PLACES}, {IMAGES}, int64, int64, {IMAGES})")
def spread(gradient: Array, which: Array, filters: Array, above: int, left: int, of_x: Array) -> None:
    """Write the gradients of images (B, H, W, C), of those of what comes out (B, h, w, O)."""
    batch, height, width, inside = of_x.shape
    outside, _, high, wide = filters.shape
    cells = gradient.shape[1] * gradient.shape[2]
    blocks, channels, tiles = _blocks(inside, wide)
    stride = (width + 2 * left) * channels
    corners, later = _corners(gradient.shape[1], gradient.shape[2], stride, channels)
    padded = _zeros((height + 2 * above) * stride + WIDTH)  # a tile reaches past the end
    packed = _zeros(blocks * tiles * outside * high * WIDTH).reshape(blocks, tiles, outside, high, WIDTH)
    for o in range(outside):
        for c in range(inside):
            for r in range(high):
                for k in range(wide):
                    place = k * channels + c % channels
                    packed[c // channels, place // WIDTH, o, r, place % WIDTH] = filters[o, c, r, k]
    # Of each cell's places, the last for what is `CUT`: which filters have a gradient there, and how many they are.
    factors, offsets = np.empty((cells, 5, outside), np.uint32), np.empty((cells, 5, outside), np.int64)
    counts = np.empty((cells, 5), np.uint64)
    bits, where = gradient.view(np.uint32).reshape(-1), which.reshape(-1)
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
                    for k in range(4):
                        if counts[p, k]:
                            tile = (
                                counts[p, k], factors[p, k].ctypes.data, offsets[p, k].ctypes.data,
                                packed[b, t].ctypes.data, WIDTH,
                                padded.ctypes.data + 4 * (corners[p] + later[k] + t * WIDTH), stride,
                            )  # fmt: skip
                            if high == 3:
                                _add_three(*tile)
                            else:
                                _add_five(*tile)
            _copy(of_x[n], b * channels, channels, above, left, padded, True)
