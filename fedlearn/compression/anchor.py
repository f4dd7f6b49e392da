"""An anchor: a state that nodes keep, so that each later one comes as a correction to it.

Every few rounds the server fixes an anchor, coded at few bits. In a round a node is sent the code of the correction,
state less anchor, and the anchor itself only if the node has an older one. The server keeps the exact state, nodes
train from the decoded one and report changes; so no error adds up, as it does where a decoded state is coded anew.
Each correction is to the anchor, not to the round before: a node may miss any number of rounds.

Source: the idea of a shared anchor is that of DoCoFL, Dorfman et al. 2023 (arXiv:2302.00543).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

import numpy as np

from fedlearn.compression.codec import Payload
from fedlearn.core.state import Array, Layout, State, Update, changed_by, difference

NAME = "anchor"
MOVING = "ef21"  # first word of a chain: an anchor that moves in each round
DEFAULT_BITS = 4
CODES = {
    **{bits: f"eden:{bits}" for bits in (1, 2, 3, 4)},
    8: "rotate,quantize:8",
    16: "fp16",
    32: "identity",
}
"""Bits for each entry of an anchor -> the chain by which it travels."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """How often the server fixes an anchor, and at how many bits it travels.

    Parameters
    ----------
    rounds
        A, rounds that an anchor serves, from 2; 1 of one that moves, which is the state of the round before as nodes
        have decoded it (EF21, Richtarik et al. 2021, arXiv:2106.05203, on the way down).
    bits
        Bits for each entry, a key of `CODES`.
    """

    rounds: int
    bits: int = DEFAULT_BITS

    @classmethod
    def from_argument(cls, argument: str) -> Anchor:
        """Return the anchor of ``ROUNDS`` or ``ROUNDS:BITS``.

        Raises
        ------
        ValueError
            With the allowed values, if the argument is neither.

        >>> Anchor.from_argument("50:2")
        Anchor(rounds=50, bits=2)
        """
        rounds, colon, bits = argument.partition(":")
        if not (rounds.isdecimal() and int(rounds) >= 2):
            raise ValueError("say for how many rounds an anchor serves, at least 2, as in anchor:50")
        if colon and (not bits.isdecimal() or int(bits) not in CODES):
            raise ValueError(
                f"an anchor travels at {', '.join(map(str, CODES))} bits for each entry, as in anchor:50:4"
            )
        return cls(int(rounds), int(bits) if colon else DEFAULT_BITS)

    @property
    def moves(self) -> bool:
        """Whether each decoded state is the anchor of the next round: nodes make it themselves, if they miss none."""
        return self.rounds == 1

    @property
    def is_exact(self) -> bool:
        """Whether the anchor travels as it is."""
        return self.chain == "identity"

    @property
    def chain(self) -> str:
        """The chain by which the anchor travels."""
        return CODES[self.bits]

    def sent_share(self, participation: float) -> float:
        """Return the share of instructions that are expected to bring the anchor, where nodes are drawn evenly.

        A node is in a round with probability q, and needs the anchor in its first of A rounds:
        ``(1 - (1 - q)^A) / (A q)``.

        Parameters
        ----------
        participation
            q, the share of all nodes that are in a round, in (0, 1].

        >>> [round(Anchor(rounds).sent_share(q), 4) for q, rounds in ((1, 10), (0.1, 10), (0.1, 50), (0.01, 100))]
        [0.1, 0.6513, 0.199, 0.634]
        """
        return self.sent_to_a_node([participation] * self.rounds) / (self.rounds * participation)

    def sent_to_a_node(self, participation: Sequence[float]) -> float:
        """Return how many anchors a node is expected to be sent in a run: one in each life of an anchor that it is in.

        Of an anchor that moves it is the first one.

        Parameters
        ----------
        participation
            For each round of the run the share of all nodes that are in it, in [0, 1].

        >>> round(Anchor(10).sent_to_a_node([0.1] * 25), 4)  # two whole lives, and half of one
        1.7122
        """
        if self.moves:
            return float(any(participation))
        lives = (participation[begin : begin + self.rounds] for begin in range(0, len(participation), self.rounds))
        return sum(1 - prod(1 - share for share in life) for life in lives)


def name_of(number: int, payload: Payload) -> str:
    """Return the name of an anchor: the round that it was fixed in, and a hash of the bytes that travel.

    Two anchors of one name are the same; a node of a server that has begun anew does not take an old one for a new one.
    """
    content = blake2b(digest_size=8)
    for name, array in sorted(payload.items()):
        content.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        content.update(array.tobytes())
    return f"{number}-{content.hexdigest()}"


def number_in(name: str) -> int:
    """Return the round that an anchor was fixed in; 0 of what is no name of an anchor.

    >>> number_in("51-00ff00ff00ff00ff"), number_in("5100"), number_in("")
    (51, 0, 0)
    """
    number, dash, _ = name.partition("-")
    return int(number) if dash and number.isdecimal() and len(number) < 10 else 0


def correction(state: State, anchor: State) -> State:
    """Return what must be added to an anchor to come to a state of the same names."""
    return {name: np.asarray(difference(array, anchor[name])) for name, array in state.items()}


def corrected(anchor: State, update: Update, layout: Layout) -> dict[str, Array]:
    """Return the anchor with a decoded correction added; an entry that was not sent keeps the anchor's value."""
    state: dict[str, Array] = {}
    for name, spec in layout.items():
        before, entries = anchor[name], update.get(name)
        if entries is None:
            state[name] = before
        elif entries.positions is None:
            state[name] = np.asarray(changed_by(before, entries.values.reshape(spec.shape)))
        else:
            flat = before.reshape(-1).copy()
            flat[entries.positions] = changed_by(flat[entries.positions], entries.values)
            state[name] = flat.reshape(spec.shape)
    return state
