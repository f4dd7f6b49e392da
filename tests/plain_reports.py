"""Reports as a plain Flower client gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flwr.app import Message, RecordDict

from fedlearn import flower, wire
from fedlearn.core.state import State


def dense_report(
    message: Message,
    arrays: State,
    metrics: dict[str, float],
    num_examples: int,
    parcels: Mapping[str, State] = MappingProxyType({}),
) -> Message:
    """Return a plain Flower client's answer: arrays, metrics with the number of examples; and further parcels."""
    others = {name: wire.pack_arrays(each) for name, each in parcels.items()}
    records = {
        wire.ARRAYS: wire.pack_arrays(arrays),
        wire.METRICS: wire.metrics_record(metrics, num_examples),
        **others,
    }
    return Message(flower.filled(RecordDict(), records), reply_to=message)
