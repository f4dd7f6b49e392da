"""What a node answers to an instruction, in plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flwr.app import ArrayRecord, RecordDict

from client.learners.learner import LocalFit
from fedlearn import flower, wire
from fedlearn.core.state import State
from fedlearn.flower import Record


class Answer(NamedTuple):
    """An answer before its codec.

    Parameters
    ----------
    arrays
        The node's new state; may share memory with the learner, until its next fit.
    parcels
        What the node sends beside its state: name -> named arrays.
    others
        All other records, by key: the metrics, and what a client mod has added.

    Examples
    --------
    >>> import numpy as np
    >>> answer = Answer.of_fit(LocalFit({"w": np.ones(2)}, num_examples=4, metrics={"train_loss": 0.5}))
    >>> sorted(answer.arrays), sorted(answer.parcels)
    (['w'], [])
    """

    arrays: State
    parcels: Mapping[str, State]
    others: Mapping[str, Record]

    @classmethod
    def of_fit(cls, fit: LocalFit) -> Answer:
        """Return the answer that a fit is."""
        return cls(fit.arrays, fit.parcels, {wire.METRICS: wire.metrics_record(fit.metrics, fit.num_examples)})

    @classmethod
    def in_records(cls, content: RecordDict) -> Answer:
        """Return the answer in the records of a plain Flower client."""
        others = {key: record for key, record in content.items() if not isinstance(record, ArrayRecord)}
        parcels = {name: wire.unpack_arrays(record) for name, record in wire.parcels_of(content).items()}
        return cls(wire.unpack_arrays(wire.state_record(content)), parcels, others)

    def to_records(self) -> RecordDict:
        """Return the answer as a plain Flower client gives it: dense arrays and metrics."""
        parcels = {name: wire.pack_arrays(arrays) for name, arrays in self.parcels.items()}
        records = {wire.ARRAYS: wire.pack_arrays(self.arrays), **self.others, **parcels}
        return flower.filled(RecordDict(), records)
