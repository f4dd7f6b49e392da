"""What must hold of a schedule that has run; README.md lists it."""

from __future__ import annotations

import random

import numpy as np

from fedlearn.secure import key_agreement
from fedlearn.secure.masks import add_mask, zeros
from tests.secure_faults.knowing import FIELD
from tests.secure_faults.world import World


def broken(world: World) -> list[str]:
    """Return in lines what a schedule breaks."""
    lines = list(world.broken)
    for round_number in {report.round_number for report in world.view.reports} | world.committed.keys():
        lines += _sums(world, round_number) + _known(world, round_number)
    return lines + _seeds(world)


def _sums(world: World, round_number: int) -> list[str]:
    summed = world.committed.get(round_number)
    if summed is None:
        return []
    bits, point = world.point.modulus_bits, world.point
    clear = sum(world.values(node, round_number).astype(np.uint64) for node in summed.nodes) % (1 << bits)
    if not np.array_equal(clear, summed.total):
        return [f"round {round_number}: the sum of {summed.nodes} is {summed.total}, in the clear it is {clear}"]
    decoded = point.decoded(summed.total, len(summed.nodes))
    if not np.array_equal(decoded, point.decoded(clear.astype(summed.total.dtype), len(summed.nodes))):
        return [f"round {round_number}: decoded otherwise"]
    return []


def _known(world: World, round_number: int) -> list[str]:
    honest = world.sites.keys() - world.view.colluders
    basis = world.view.sums_of(round_number)
    if not basis:
        if round_number in world.committed:
            return [f"round {round_number} is committed, and the adversary does not know the sum: the model is wrong"]
        return []
    if len(basis) > 1:
        return [f"round {round_number}: {len(basis)} sums are known: {basis}"]
    nodes = {node for node, factor in basis[0].items() if factor}
    fewest = (world.level.nodes + world.level.colluders) // 2 + 1 - len(world.view.colluders)
    if {factor % FIELD for factor in basis[0].values()} != {1} or len(nodes) < fewest:
        return [f"round {round_number}: {basis[0]} is known, a sum of at least {fewest} nodes may be"]
    committed = world.committed.get(round_number)
    if committed is not None and nodes != set(committed.nodes) & honest:
        return [f"round {round_number}: the sum of {nodes} is known, that of {committed.nodes} is committed"]
    return []


def _seeds(world: World) -> list[str]:
    seed = bytearray(key_agreement.fresh_secret())
    first, second = zeros(16, 32), zeros(16, 32)
    add_mask(first, bytes(seed))
    place = random.Random(world.seed).randrange(len(seed))
    seed[place] ^= 255
    add_mask(second, bytes(seed))
    return [] if (first != second).any() else [f"byte {place} of a mask's seed does not count"]
