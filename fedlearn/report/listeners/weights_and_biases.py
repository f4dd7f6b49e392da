"""Log a run to Weights & Biases: settings as its config, numbers of committed rounds as its history.

Project, entity and mode are those of WANDB_PROJECT, WANDB_ENTITY and WANDB_MODE (``offline`` writes into the run folder
alone). A resumed run goes on in the W&B run that it was begun in; the id of that run stands in the run folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import UsageError
from fedlearn.core.metrics import declared
from fedlearn.report.listeners import scalars_of
from fedlearn.runs.files import write_atomically
from fedlearn.runs.log import Event

PROJECT = "fedlearn"  # unless WANDB_PROJECT names another
RUN_ID = "wandb_run_id.txt"


class WeightsAndBiases:
    """The listener that sends events to W&B by the calls ``init``, ``log`` and ``finish``."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        try:
            import wandb
        except ImportError:
            raise UsageError("--log wandb: not installed: pip install 'fedlearn[wandb]'") from None
        stored = folder / RUN_ID
        if not stored.exists():
            write_atomically(stored, uuid4().hex[:16].encode())
        self._has_failed = True
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), name=folder.name, dir=str(folder),
            id=stored.read_text(encoding="utf-8").strip(), resume="allow", config=to_flower(config),
        )  # fmt: skip

    def take(self, event: Event) -> None:
        """Send the numbers of a committed round, and note how the run has ended."""
        if event["event"] == "started" and (metrics := declared(event.get("metrics"))):
            self._run.summary.update(metrics.counts_in)
        if event["event"] == "committed":
            self._run.log(scalars_of(event), step=event["round"])
        if event["event"] == "stopped":
            self._run.summary.update({"stopped_early": f"in round {event['round']} because {event['reason']}"})
        if event["event"] == "ended":
            self._has_failed = event["status"] != "completed"

    def close(self) -> None:
        """End the W&B run, with exit code 1 unless all rounds were committed."""
        self._run.finish(exit_code=int(self._has_failed))
