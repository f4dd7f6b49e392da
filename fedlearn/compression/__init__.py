"""Codecs: a node encodes an update before sending, the server decodes the update before use."""

from fedlearn.compression.anchor import MOVING, NAME, Anchor
from fedlearn.compression.chain import Chain
from fedlearn.compression.codec import Codec, Payload
from fedlearn.compression.parse import parse_chain, split_anchor, words_in
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry

CODECS = Registry(
    "compression.codec",
    tables.CODECS,
)


DOWNLINK = "compression.downlink"


def load_codec(settings: CompressionSettings) -> Codec:
    """Return the codec that the settings name, chained where they name several stages."""
    return parse_chain(settings.codec, settings, CODECS)


def load_downlink(settings: CompressionSettings) -> Codec:
    """Return the codec of the downlink, by which the state travels to the nodes, or the correction to an anchor."""
    _, chain = split_anchor(settings.downlink, DOWNLINK)
    return parse_chain(chain, settings, Registry(DOWNLINK, dict(CODECS)))


def load_anchor(settings: CompressionSettings) -> Anchor | None:
    """Return the anchor of the downlink; None where each state is coded by itself."""
    return split_anchor(settings.downlink, DOWNLINK)[0]


def anchor_codec(anchor: Anchor) -> Codec:
    """Return the codec by which an anchor itself travels."""
    if anchor.is_exact:
        return Chain()  # vectors, as of all other chains: a checkpoint keeps no array without dimensions
    return parse_chain(anchor.chain, CompressionSettings(), CODECS)


def is_ours(chain: str) -> bool:
    """Return whether a chain has only fedlearn's own stages, no ``module:Class``; loads none of them.

    >>> is_ours("drop:0.1, quantize:4"), is_ours("rotate,theirs:Stage")
    (True, False)
    """
    return all(":" not in word or word.partition(":")[0] in {*CODECS, NAME, MOVING} for word in words_in(chain))


def parcel_codec(chain: str) -> Codec:
    """Return the codec that a strategy names for a parcel beside the state."""
    return parse_chain(chain, CompressionSettings(codec=chain, send="update"), CODECS)


__all__ = [
    "CODECS",
    "Anchor",
    "Codec",
    "Payload",
    "anchor_codec",
    "is_ours",
    "load_anchor",
    "load_codec",
    "load_downlink",
    "parcel_codec",
    "words_in",
]
