"""The whole question of a round: all that a node's report depends on but the node's own examples and memory.

Nodes of one secure sum must have been asked the same. A server that sends another state, or another limit of work, to
all nodes but one would read the update of that one from the sum (model inconsistency, Pasquini et al. 2022,
arXiv:2111.07380). The digest of the whole question is in the masks that two nodes share, so that masks of different
questions never cancel, and in what each node signs.

A second sum of one question, over other nodes, may tell what a single node has added (`client.owner.signed_sets`). Two
questions are one for this purpose if the same numbers answer both: names, round and seed count only where a node draws
by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from flwr.app import ArrayRecord

from client.received.kept_frozen import unsent_digest
from client.request import Request
from fedlearn import flower, wire
from fedlearn.config import to_flower
from fedlearn.core.state import State, digest_of

OF_A_FIT = ("model.", "training.", "data.", "client.")  # the settings that a fit depends on
OF_THE_ENGINE = ("engine.", "training.stack")  # each node has its own
OF_ONE_NODE = frozenset({wire.INSTRUCTION, wire.SECURE, wire.ANCHOR, wire.DOWNLINK})


@dataclass(frozen=True, slots=True)
class WholeQuestion:
    """What a node was asked in a round.

    Parameters
    ----------
    state
        SHA-256 of the state as the node decoded it.
    unsent
        SHA-256 of the frozen arrays that no training message brings.
    records
        All other records of the message that are not about a single node: key -> text.
    asked
        Settings of the run as the server has sent them, flat.
    settings
        The same with the data that the node's owner has declared in the place of those that the server names.
    seed, round_number
        What a fit draws its random numbers by.
    """

    state: str
    unsent: str
    records: Mapping[str, str]
    asked: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int
    round_number: int

    @classmethod
    def of(cls, request: Request, state: State) -> WholeQuestion:
        """Return what a training message asks, of which the node has decoded a state."""
        asked, settings = _of_the_run(request.context.run_config), _of_the_run(to_flower(request.config))
        seed, round_number = request.config.seed, request.instruction.round_number
        records = dict(_texts_of(request))
        return cls(digest_of(state), unsent_digest(request), records, asked, settings, seed, round_number)

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that was asked: 32 bytes."""
        return _digest(self.state, self.unsent, self.records, self.asked, self.seed, self.round_number)

    def of_numbers(self, *, drawn: bool) -> bytes:
        """Return the SHA-256 of all that the node's numbers depend on, 32 bytes.

        Parameters
        ----------
        drawn
            Whether the node draws random numbers, which seed and round name.
        """
        settings = {name: each for name, each in self.settings.items() if name.startswith(OF_A_FIT)}
        records = {key: text for key, text in self.records.items() if key != wire.METRICS}
        draws = (self.seed, self.round_number) if drawn else ()
        return _digest(self.state, self.unsent, records, settings, *draws)


def _of_the_run(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in settings.items() if not name.startswith(OF_THE_ENGINE)}


def _texts_of(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the records of a message but its state, and those that are about one node, each as a text."""
    content = request.content
    state = wire.state_key(content)
    for key, record in flower.entries_of(content).items():
        if isinstance(record, ArrayRecord) and key not in (state, wire.ANCHOR):
            yield key, digest_of(wire.unpack_arrays(record))
        elif key not in OF_ONE_NODE | {state}:
            yield key, repr(sorted((name, each) for name, each in record.items() if name != wire.SERVER_ROUND))
    yield wire.METRICS, wire.read_secure(content).get(wire.METRICS, b"").hex()


def _digest(*parts: Any) -> bytes:
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).digest()
