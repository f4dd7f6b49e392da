"""What a node demands before it takes part, whatever a server asks."""

from __future__ import annotations

from dataclasses import dataclass

from fedlearn.core.errors import Refused
from fedlearn.secure.key_agreement import is_signed
from fedlearn.secure.level import FEWEST, SECURITY
from fedlearn.secure.protocol_messages import Advertised, Roster


class UnlistedPeers(Refused):
    """A roster has nodes that are none of the peers that this node's policy lists.

    Parameters
    ----------
    nodes
        Their ids.
    """

    def __init__(self, nodes: tuple[int, ...]) -> None:
        self.nodes = nodes
        named = ", ".join(map(str, nodes))
        super().__init__("unlisted-peer", f"nodes {named} are none of the peers that this node's policy lists")


@dataclass(frozen=True, slots=True)
class Demands:
    """A node's own terms.

    Parameters
    ----------
    peers
        The keys (`Advertised.verify`) of the nodes that may take part; None for any, which protects against a server
        that relays keys as they are, and against no other: it could stand between any two nodes.
    fewest
        So many nodes must take part.
    summed
        So many reports must be in the sum: as many as the owner wants, or as the noise in each is calibrated to.
    colluders
        The level must stand so many colluders.
    security
        Bits: the level may fail with a probability of at most 2^-security.
    """

    peers: frozenset[bytes] | None = None
    fewest: int = FEWEST
    summed: int = 0
    colluders: int = 0
    security: int = SECURITY

    def check(self, roster: Roster, mine: Advertised) -> int:
        """Return this node's position in a roster.

        Raises
        ------
        Refused
            If the roster does not meet the demands, or is none.
        """
        level, members = roster.level, roster.members
        if roster.question != mine.question or any(member.question != mine.question for member in members):
            raise Refused("wrong-attempt", "a key of another attempt stands in the roster")
        if len(members) < self.fewest:
            raise Refused("too-few-nodes", f"{len(members)} nodes take part, this node wants {self.fewest} or more")
        if len(members) != level.nodes:
            raise Refused("wrong-roster", f"{len(members)} nodes stand in a roster whose level is for {level.nodes}")
        if level.colluders < self.colluders or level.opened > -self.security:
            raise Refused("level-too-low", f"{level} does not stand {self.colluders} colluders at 2^-{self.security}")
        if members.count(mine) != 1:
            raise Refused("wrong-roster", "this node does not stand in the roster once, with the keys it has sent")
        keys = [key for member in members for key in (member.cipher, member.mask, member.verify)]
        if len({member.node for member in members}) < len(members) or len(set(keys)) < len(keys):
            raise Refused("wrong-roster", "a node or a key stands in the roster twice")
        if self.peers is not None:
            self._check_peers(members, mine)
        return members.index(mine)

    def _check_peers(self, members: tuple[Advertised, ...], mine: Advertised) -> None:
        others = [member for member in members if member != mine]
        if unlisted := tuple(member.node for member in others if member.verify not in (self.peers or ())):
            raise UnlistedPeers(unlisted)
        for member in others:
            if not is_signed(member.statement, member.signature, member.verify):
                raise Refused("bad-signature", f"node {member.node} has not signed the keys that came in its name")
