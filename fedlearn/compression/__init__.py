"""What a node does to an update before it sends it, and the server before it uses it."""

from fedlearn.compression.base import Codec, Payload
from fedlearn.compression.parse import parse_chain
from fedlearn.config.schema import CompressionSettings
from fedlearn.registry import Registry

CODECS = Registry(
    "compression.codec",
    {
        "identity": "fedlearn.compression.identity:Identity",
        "drop": "fedlearn.compression.drop:Drop",
        "rotate": "fedlearn.compression.rotate:Rotate",
        "quantize": "fedlearn.compression.quantize:Quantize",
        "fp16": "fedlearn.compression.fp16:Fp16",
    },
)


def load_codec(settings: CompressionSettings) -> Codec:
    """Return the codec that the settings name, chained where they name several stages."""
    return parse_chain(settings.codec, settings, CODECS)


__all__ = ["CODECS", "Codec", "Payload", "load_codec"]
