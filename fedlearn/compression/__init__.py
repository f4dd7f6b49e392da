"""What a node does to an update before it sends it, and the server before it uses it."""

from fedlearn.compression.base import Codec, Payload
from fedlearn.config.schema import CompressionSettings
from fedlearn.registry import Registry

CODECS = Registry(
    "compression.codec",
    {
        "identity": "fedlearn.compression.identity:Identity",
        "drop": "fedlearn.compression.drop:Drop",
    },
)


def load_codec(settings: CompressionSettings) -> Codec:
    """Return the codec that the settings name."""
    codec: Codec = CODECS.load(settings.codec).from_settings(settings)
    return codec


__all__ = ["CODECS", "Codec", "Payload", "load_codec"]
