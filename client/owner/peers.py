"""The nodes that a node sums with: whom its owner lists, and the key by which the others know it.

``fedlearn client --peers FILE`` puts both into the node's config, which no server can set. Without it a node signs with
a key of each attempt, which the server relays: that protects against a server that relays keys as they are.
"""

from __future__ import annotations

from pathlib import Path

from client.request import Request
from fedlearn.core.errors import UsageError
from fedlearn.secure import demands, key_agreement, level

PEERS, KEY, LEAST, COLLUDING = "peers", "node-key", "least-peers", "colluding-peers"  # names in the config of a node


def lists_peers(request: Request) -> bool:
    """Return whether the owner of the node lists the nodes with which it sums: it then takes part in nothing else."""
    return PEERS in request.context.node_config


def colluders_of(request: Request) -> int:
    """Return how many colluders a secure sum must stand, as the owner of the node says: none unless it says more."""
    return int(request.context.node_config.get(COLLUDING, 0))


def key_of(request: Request) -> key_agreement.NodeKey | None:
    """Return the key with which the node signs in all runs; None where its owner lists no peers."""
    config = request.context.node_config
    return key_agreement.NodeKey(_read(str(config[KEY]))) if PEERS in config else None


def listed_by(request: Request) -> list[key_agreement.ListedKey]:
    """Return the keys that the owner of the node lists, also of peers that have left."""
    config = request.context.node_config
    return key_agreement.listed_keys(_read(str(config[PEERS]))) if PEERS in config else []


def demands_of(request: Request) -> demands.Demands:
    """Return what the node demands of a roster: a real node goes by no setting of the server's."""
    secure, config = request.config.secure, request.context.node_config
    fewest = max(secure.group_size, level.FEWEST)
    shares = request.config.fewest_reports if request.config.privacy.trust == "distributed" else 0
    if not request.is_real:
        return demands.Demands(fewest=fewest, summed=shares, colluders=secure.colluders, security=secure.security)
    if PEERS not in config:
        return demands.Demands(fewest=fewest, summed=shares)
    colluders = colluders_of(request)
    try:
        peers = key_agreement.node_keys_in(_read(str(config[PEERS])), colluders=colluders)
    except ValueError as error:
        raise UsageError(f"--peers {config[PEERS]}: {error}") from None
    fewest = max(int(config.get(LEAST, level.FEWEST)), fewest, colluders + 2)  # at least two honest nodes
    return demands.Demands(peers=peers, fewest=fewest, summed=max(fewest, shares), colluders=colluders)


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"--peers: {file}: {error.strerror}") from None
