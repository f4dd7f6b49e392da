"""Log a run to TensorBoard: one scalar for each number of a committed round, in ``RUN/tensorboard``."""

from __future__ import annotations

from pathlib import Path

from fedlearn.config import RunConfig
from fedlearn.core.errors import UsageError
from fedlearn.core.metrics import Metrics, declared
from fedlearn.report.listeners import scalars_of
from fedlearn.runs.log import Event


class TensorBoard:
    """The listener that writes event files with TensorBoard's writer; torch's writer would import torch."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event as Record
            from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise UsageError("--log tensorboard: not installed: pip install 'fedlearn[tensorboard]'") from None
        self._record, self._summary, self._about = Record, Summary, SummaryMetadata
        self._metrics = Metrics()
        self._writer = EventFileWriter(str(folder / "tensorboard"))

    def take(self, event: Event) -> None:
        """Write the numbers of a committed round."""
        if event["event"] == "started":
            self._metrics = declared(event.get("metrics")) or self._metrics
        if event["event"] != "committed":
            return
        loss = self._metrics.privacy_loss
        about = {} if loss is None else {loss.name: self._about(summary_description=loss.note)}
        values = [
            self._summary.Value(tag=name, simple_value=value, metadata=about.get(name))
            for name, value in scalars_of(event).items()
        ]
        record = self._record(wall_time=event["time"], step=event["round"], summary=self._summary(value=values))
        self._writer.add_event(record)
        self._writer.flush()

    def close(self) -> None:
        """Write the remaining events, and close the file."""
        self._writer.close()
