"""Log a run to MLflow: settings as parameters, numbers of committed rounds as metrics.

The server or folder is that of MLFLOW_TRACKING_URI. A resumed run goes on in the MLflow run that it was begun in; the
id of that run stands in the run folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import UsageError
from fedlearn.core.metrics import declared
from fedlearn.report.listeners import scalars_of
from fedlearn.runs.files import write_atomically
from fedlearn.runs.log import Event

EXPERIMENT = "fedlearn"
RUN_ID = "mlflow_run_id.txt"
STATUS = {"completed": "FINISHED", "interrupted": "KILLED"}


class MLflow:
    """The listener that sends events to MLflow by its client interface."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise UsageError("--log mlflow: not installed: pip install 'fedlearn[mlflow]'") from None
        self._status = "FAILED"
        try:
            self._client = MlflowClient()
            self._run_id = self._begun(folder, config)
        except MlflowException as error:
            raise UsageError(f"--log mlflow: {' '.join(str(error).split())}") from None

    def _begun(self, folder: Path, config: RunConfig) -> str:
        """Return the id of the MLflow run that belongs to the run folder; begin one if there is none."""
        stored = folder / RUN_ID
        if stored.exists():
            run_id = stored.read_text(encoding="utf-8").strip()
            self._client.update_run(run_id, status="RUNNING")
            return run_id
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        number = experiment.experiment_id if experiment else self._client.create_experiment(EXPERIMENT)
        run_id = str(self._client.create_run(number, run_name=folder.name).info.run_id)
        write_atomically(stored, run_id.encode())
        for name, value in to_flower(config).items():
            self._client.log_param(run_id, name, value)
        return run_id

    def take(self, event: Event) -> None:
        """Send the numbers of a committed round, and note how the run has ended."""
        if event["event"] == "ended":
            self._status = STATUS.get(event["status"], "FAILED")
        if event["event"] == "started" and (metrics := declared(event.get("metrics"))):
            for name, words in metrics.counts_in.items():
                self._client.set_tag(self._run_id, name, words)
        if event["event"] == "committed":
            for name, value in scalars_of(event).items():
                self._client.log_metric(
                    self._run_id, name, value, timestamp=int(event["time"] * 1000), step=event["round"]
                )

    def close(self) -> None:
        """End the MLflow run."""
        self._client.set_terminated(self._run_id, self._status)
