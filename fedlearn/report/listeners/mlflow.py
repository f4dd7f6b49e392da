"""MLflow: settings as parameters, the numbers of committed rounds as metrics; where MLFLOW_TRACKING_URI says.

A resumed run goes on in the MLflow run it was begun in, whose id stands in the run folder.
"""

from __future__ import annotations

from pathlib import Path

from fedlearn.checkpoint import write_atomically
from fedlearn.config import RunConfig, to_flower
from fedlearn.errors import UsageError
from fedlearn.live import Event
from fedlearn.report.listeners import scalars_of

EXPERIMENT = "fedlearn"
RUN_ID = "mlflow_run_id.txt"
STATUS = {"completed": "FINISHED", "interrupted": "KILLED"}


class MLflow:
    """Sends events to MLflow by its client interface."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise UsageError("--log mlflow: not installed: pip install 'fedlearn[mlflow]'") from None
        self._client = MlflowClient()
        self._status = "FAILED"
        stored = folder / RUN_ID
        if stored.exists():
            self._run_id = stored.read_text(encoding="utf-8").strip()
            self._client.update_run(self._run_id, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        number = experiment.experiment_id if experiment else self._client.create_experiment(EXPERIMENT)
        self._run_id = self._client.create_run(number, run_name=folder.name).info.run_id
        write_atomically(stored, self._run_id.encode())
        for name, value in to_flower(config).items():
            self._client.log_param(self._run_id, name, value)

    def take(self, event: Event) -> None:
        """Send the numbers of a committed round, and how the run has ended."""
        if event["event"] == "ended":
            self._status = STATUS.get(event["status"], "FAILED")
        if event["event"] == "committed":
            for name, value in scalars_of(event).items():
                self._client.log_metric(
                    self._run_id, name, value, timestamp=int(event["time"] * 1000), step=event["round"]
                )

    def close(self) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self._run_id, self._status)
