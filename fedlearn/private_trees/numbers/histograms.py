"""Rows in the order of their nodes, and histograms of all nodes filled in one pass over the rows.

A level of the trees is a sequence of *slots*, one for every node of the level, tree after tree; the children of slot s
are the slots 2 s and 2 s + 1 of the next level. Rows of one slot are adjacent (from `Rows.start`), so a pass over the
rows fills the histogram of one node after another while it stays in the cache, for all trees of a forest at once.

A record is a pair of whole numbers (zeros, ones) = UNIT * w * (1 - y, y) with its weight w and its target y in [0, 1]:
sums are exact, in any order, and the L1 norm of what a record adds is exactly UNIT * w.

Weight partition (WP): a row whose split feature is missing goes to both children with half its weight. A record with
many missing values could double its pieces at every level, so a piece of weight `SMALLEST_PIECE` or less is not halved:
it goes whole to one child. `_side` chooses the child by the piece and its node alone, evenly over pieces. So

* at most UNIT / SMALLEST_PIECE pieces of a record are on a level, whatever the depth: memory and time are bounded;
* all pieces of a record together weigh no more than UNIT, as before: every piece goes on whole, or in two halves;
* no piece depends on another record: neighbors differ by the pieces of the one record.

The proofs of the sensitivities need the last two alone, so they hold for records with missing values, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.compiled import compiled

UNIT = 2**20
"""Fixed-point weight of one record: targets are rounded to 2^-20, a weight may be halved twenty times."""

SMALLEST_PIECE = UNIT // 16
"""A piece of a record that weighs no more than this is not halved any further; public."""

Codes = NDArray[np.uint8]
Pairs = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records in the order of their slots; a record with missing values may be split into pieces."""

    codes: Codes  # (rows, features)
    pairs: Pairs  # (rows, 2) zeros and ones, in UNITs of weight
    start: NDArray[np.int64]  # (slots + 1,) rows of slot s are start[s] : start[s + 1]

    @property
    def slots(self) -> int:
        """Number of nodes of this level."""
        return len(self.start) - 1


def pairs_of(unit_target: NDArray[np.float64], whole: NDArray[np.int64] | int = UNIT) -> Pairs:
    """Return (rows, 2) the fixed-point pair w (1 - y, y) of targets y, which must lie in [0, 1].

    `whole` is the weight w of each record in UNITs, at most UNIT.
    """
    if not ((unit_target >= 0) & (unit_target <= 1)).all():
        raise ValueError("unit_target: every target must be in [0, 1]")
    ones = np.rint(unit_target * whole).astype(np.int32)
    return np.stack([(whole - ones).astype(np.int32), ones], axis=1)


def arrange(codes: Codes, pairs: Pairs, slot_of_row: NDArray[np.integer], slots: int) -> Rows:
    """Return the rows in the order of their slots; rows of one slot keep their order."""
    order = np.argsort(slot_of_row, kind="stable")
    start = np.zeros(slots + 1, np.int64)
    np.cumsum(np.bincount(slot_of_row, minlength=slots), out=start[1:])
    return Rows(codes[order], pairs[order], start)


def node_sums(rows: Rows) -> NDArray[np.int64]:
    """Return (slots, 2) the sums of zeros and ones of each slot; one record adds an L1 norm of UNIT in all."""
    out = np.zeros((rows.slots, 2), np.int64)
    _add_up(rows.pairs, rows.start, out)
    return out


def hats(rows: Rows, knots: int) -> NDArray[np.int64]:
    """Return (slots, knots) weights of each slot; a row's weight is divided over the two knots next to its target."""
    out = np.zeros((rows.slots, knots), np.int64)
    _add_hats(rows.pairs, rows.start, out)
    return out


def histogram(rows: Rows, pairs: Pairs, bins: int) -> NDArray[np.int64]:
    """Return (slots, features, bins + 1, 2) the sums of `pairs` (rows, 2) by code; missing values are last."""
    out = np.zeros((rows.slots, rows.codes.shape[1], bins + 1, pairs.shape[1]), np.int64)
    _fill(rows.codes, pairs, rows.start, out)
    return out


def histogram_by_target(rows: Rows, step: NDArray[np.uint8], steps: int, bins: int) -> NDArray[np.int64]:
    """Return (slots, features, bins + 1, steps) the sums of weights by code and by the row's target step."""
    out = np.zeros((rows.slots, rows.codes.shape[1], bins + 1, steps), np.int64)
    _fill_by_target(rows.codes, rows.pairs, step, rows.start, out)
    return out


def route(rows: Rows, feature: NDArray[np.int32], cut: NDArray[np.int64]) -> Rows:
    """Return the rows in the slots of the next level: slot s goes to 2 s if ``code <= cut[s]``, else to 2 s + 1.

    A row whose code is missing is split into two halves (an odd unit is lost), or goes whole to one side if it is a
    small piece already.
    """
    start = np.zeros(2 * rows.slots + 1, np.int64)
    _count_children(rows.codes, rows.pairs, rows.start, feature, cut, start)
    start = np.cumsum(start)
    codes = np.empty((int(start[-1]), rows.codes.shape[1]), np.uint8)
    pairs = np.empty((int(start[-1]), 2), np.int32)
    _move(rows.codes, rows.pairs, rows.start, feature, cut, start, codes, pairs)
    return Rows(codes, pairs, start)


@compiled()
def _add_up(pairs, start, out):  # type: ignore[no-untyped-def]
    for slot in range(start.shape[0] - 1):
        for row in range(start[slot], start[slot + 1]):
            out[slot, 0] += pairs[row, 0]
            out[slot, 1] += pairs[row, 1]


@compiled()
def _add_hats(pairs, start, out):  # type: ignore[no-untyped-def]
    gaps = out.shape[1] - 1
    for slot in range(start.shape[0] - 1):
        for row in range(start[slot], start[slot + 1]):
            weight = np.int64(pairs[row, 0]) + np.int64(pairs[row, 1])
            place = np.int64(pairs[row, 1]) * gaps / max(weight, np.int64(1))
            lower = min(np.int64(place), gaps - 1)
            upper_part = np.int64(np.rint((place - lower) * weight))
            out[slot, lower] += weight - upper_part
            out[slot, lower + 1] += upper_part


@compiled()
def _fill(codes, pairs, start, out):  # type: ignore[no-untyped-def]
    missing = out.shape[2] - 1
    for slot in range(start.shape[0] - 1):
        here = out[slot]
        for row in range(start[slot], start[slot + 1]):
            zeros, ones = pairs[row, 0], pairs[row, 1]
            for feature in range(codes.shape[1]):
                code = codes[row, feature]
                place = here[feature, missing if code == 255 else code]
                place[0] += zeros
                place[1] += ones


@compiled()
def _fill_by_target(codes, pairs, step, start, out):  # type: ignore[no-untyped-def]
    missing = out.shape[2] - 1
    for slot in range(start.shape[0] - 1):
        for row in range(start[slot], start[slot + 1]):
            weight = pairs[row, 0] + pairs[row, 1]
            for feature in range(codes.shape[1]):
                code = codes[row, feature]
                out[slot, feature, missing if code == 255 else code, step[row]] += weight


@compiled(inline="always")
def _goes(codes, pairs, row, place, feature, cut):  # type: ignore[no-untyped-def]
    """Return whether the row goes left, and whether it goes right."""
    code = codes[row, feature]
    if code != 255:
        return code <= cut, code > cut
    if pairs[row, 0] + pairs[row, 1] > SMALLEST_PIECE:
        return True, True
    is_left = _side(codes, pairs, row, place)
    return is_left, not is_left


@compiled()
def _side(codes, pairs, row, place):  # type: ignore[no-untyped-def]
    """Return whether a small piece goes left: the last bit of a hash of the piece and its node.

    FNV-1a (Fowler, Noll, Vo), then the last steps of MurmurHash3 (Appleby), which make every bit depend on all.
    """
    mixed = (np.uint64(14695981039346656037) ^ np.uint64(place)) * np.uint64(1099511628211)
    mixed = (mixed ^ np.uint64(pairs[row, 1])) * np.uint64(1099511628211)
    for feature in range(codes.shape[1]):
        mixed = (mixed ^ np.uint64(codes[row, feature])) * np.uint64(1099511628211)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return (mixed ^ (mixed >> np.uint64(33))) & np.uint64(1) == np.uint64(1)


@compiled()
def _count_children(codes, pairs, start, feature, cut, count):  # type: ignore[no-untyped-def]
    """Write the number of rows of child c to count[c + 1]."""
    for slot in range(start.shape[0] - 1):
        left = right = 0
        for row in range(start[slot], start[slot + 1]):
            goes_left, goes_right = _goes(codes, pairs, row, start.shape[0] + slot, feature[slot], cut[slot])
            left += goes_left
            right += goes_right
        count[2 * slot + 1] = left
        count[2 * slot + 2] = right


@compiled()
def _move(codes, pairs, start, feature, cut, child_start, new_codes, new_pairs):  # type: ignore[no-untyped-def]
    features = codes.shape[1]
    for slot in range(start.shape[0] - 1):
        left, right = child_start[2 * slot], child_start[2 * slot + 1]
        for row in range(start[slot], start[slot + 1]):
            goes_left, goes_right = _goes(codes, pairs, row, start.shape[0] + slot, feature[slot], cut[slot])
            shift = 1 if goes_left and goes_right else 0
            if goes_left:
                for f in range(features):
                    new_codes[left, f] = codes[row, f]
                new_pairs[left, 0] = pairs[row, 0] >> shift
                new_pairs[left, 1] = pairs[row, 1] >> shift
                left += 1
            if goes_right:
                for f in range(features):
                    new_codes[right, f] = codes[row, f]
                new_pairs[right, 0] = pairs[row, 0] >> shift
                new_pairs[right, 1] = pairs[row, 1] >> shift
                right += 1
