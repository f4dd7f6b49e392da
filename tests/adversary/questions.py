"""Sums of one question over sets of nodes that a lying server draws; an exact solver says what they tell.

    python -m tests.adversary.questions --sequences 10000   # exit code 1 if a sequence tells what a node has added

Five nodes list one another. The server draws rosters, sets and who is asked to sign, in rounds and runs of any name; a
node signs by the rule of `client.owner.signed_sets`, and helps to unmask one set of a round. Colluders sign anything,
and all choices of them are tried.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Annotated

import typer

from client.owner import signed_sets
from fedlearn.core.errors import UsageError
from fedlearn.runs.node_sets import SignedSet
from fedlearn.secure.level import Level

NODES, LEAST = 5, 3


@dataclass
class Node:
    """What an honest node remembers of one question, and of the round that it is in."""

    signed: list[SignedSet] = field(default_factory=list)
    unmasked: dict[str, frozenset[str]] = field(default_factory=dict)  # round -> set

    def signs(self, new: SignedSet) -> bool:
        """Return whether the node signs a set, as `client.owner.signed_sets.remember_set` and `SecureNode` do."""
        if self.unmasked.get(new.of_round, new.nodes) != new.nodes or not signed_sets.may_sign(self.signed, new):
            return False
        self.signed.append(new)
        return True

    def unmasks(self, new: SignedSet) -> None:
        """Help with a set, as `client.owner.signed_sets.settle_set` does."""
        self.unmasked[new.of_round] = new.nodes
        self.signed = [each for each in self.signed if each.of_round != new.of_round or each == new]


def sums_of(rng: random.Random, colluders: Collection[str], *, colluding: int) -> list[frozenset[str]]:
    """Return the sets of which a server gets a sum, of two to six that it asks for.

    Parameters
    ----------
    colluding
        c, as the owners say.
    """
    names = [str(number) for number in range(NODES)]
    nodes: dict[str, Node] = defaultdict(Node)
    found = []
    for _ in range(rng.randint(2, 6)):
        roster = rng.sample(names, rng.randint(LEAST, NODES))
        reported = frozenset(rng.sample(roster, rng.randint(LEAST, len(roster))))
        level = _level(len(roster), colluding)
        if level is None or len(reported) < max(LEAST, colluding + 2):
            continue
        new = SignedSet(f"run {rng.randint(1, 2)}, round {rng.randint(1, 2)}", reported)
        asked = rng.sample(sorted(reported), len(reported))
        signers = [name for name in asked if name in colluders]
        for name in [each for each in asked if each not in colluders]:
            if len(signers) < level.signers and nodes[name].signs(new):
                signers.append(name)
        if len(signers) >= level.signers:
            found.append(reported)
            for name in signers:
                nodes[name].unmasks(new)
    return found


def _level(nodes: int, colluding: int) -> Level | None:
    try:
        return Level(nodes, nodes - 1, (nodes - 1 + colluding) // 2 + 1, colluding)
    except UsageError:
        return None


def told_of(found: Sequence[Collection[str]], colluders: Collection[str]) -> str:
    """Return a node of which sums tell the vector, to whom knows those of the colluders; empty if there is none."""
    honest = sorted(set().union(*found) - set(colluders)) if found else []
    basis = _reduced([[Fraction(name in each) for name in honest] for each in found])
    alone = [row for row in basis if sum(bool(factor) for factor in row) == 1]
    return next((honest[row.index(1)] for row in alone), "")


def _reduced(rows: Iterable[list[Fraction]]) -> list[list[Fraction]]:
    """Return the reduced row echelon form: a unit vector is a combination of the rows only if it is one of these."""
    left, basis = [row for row in rows if any(row)], []
    while left:
        pivot = min(left, key=lambda row: next(place for place, factor in enumerate(row) if factor))
        place = next(place for place, factor in enumerate(pivot) if factor)
        pivot = [factor / pivot[place] for factor in pivot]
        left = [new for row in left if any(new := _without(row, pivot, place))]
        basis = [*(_without(row, pivot, place) for row in basis), pivot]
    return basis


def _without(row: list[Fraction], pivot: list[Fraction], place: int) -> list[Fraction]:
    return [factor - row[place] * other for factor, other in zip(row, pivot, strict=True)]


def broken(seeds: Iterable[int]) -> Iterator[str]:
    """Yield the sequences, by seed, that tell what an honest node has added."""
    names = [str(number) for number in range(NODES)]
    for seed in seeds:
        for colluding in range(3):
            for colluders in (each for size in range(colluding + 1) for each in combinations(names, size)):
                found = sums_of(random.Random(seed), colluders, colluding=colluding)
                if node := told_of(found, colluders):
                    yield f"seed {seed}, colluders {colluders} of {colluding}: {found} tell of {node}"


PLANTED: dict[str, Callable[[Iterable[SignedSet], SignedSet], bool]] = {
    "nothing is remembered": lambda before, new: True,
    "remembered by the name of the run": lambda before, new: all(
        each.nodes == new.nodes or each.of_round[:5] != new.of_round[:5] for each in before
    ),
    "a set that is no other one but for one node": lambda before, new: all(
        len(each.nodes ^ new.nodes) != 1 for each in before
    ),
    "what the node's own sets tell": lambda before, new: not told_of([*(each.nodes for each in before), new.nodes], ()),
}
"""Rules in the place of `client.owner.signed_sets.may_sign` that are too weak."""


def main(sequences: Annotated[int, typer.Option(min=1, help="How many, from seed 0 on.")] = 10_000) -> None:
    """Draw sequences of secure sums, and print those from which the vector of a single node follows."""
    lines = list(broken(range(sequences)))
    print("\n".join([*lines[:10], f"{sequences} sequences, {len(lines)} tell what a node has added"]))
    raise typer.Exit(1 if lines else 0)


if __name__ == "__main__":
    typer.run(main)
