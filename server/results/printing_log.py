"""The log of a run on a network, which is also printed."""

from __future__ import annotations

from fedlearn.core.metrics import Metrics, declared
from fedlearn.runs.log import EventLog


class PrintingLog(EventLog):
    """A log that also prints what came of each round, and where it lies: what ``flwr run --stream`` shows."""

    _metrics = Metrics()  # as the run declares them

    def write(self, event: str, **fields: object) -> None:
        """Append one event."""
        super().write(event, **fields)
        if event == "started":
            self._metrics = declared(fields["metrics"]) or self._metrics
        if event == "committed":
            measured = {name: value for name, value in fields.items() if isinstance(value, float)}
            shown = {name: f"{value:.4f}" for name, value in measured.items() if "seconds" not in name}
            numbers = " ".join(f"{name}={self._metrics.in_words(name, value)}" for name, value in shown.items())
            print(f"round={fields['round']} reported={fields['reported']}/{fields['cohort']} {numbers}", flush=True)
        elif event == "too-few-ready":
            print(f"round={fields['round']} attempt={fields['attempt']} too-few-ready: {fields['reason']}", flush=True)
        elif event == "stopped":
            print(f"stopped early in round {fields['round']} because {fields['reason']}", flush=True)
        elif event == "ended":
            reason = f": {fields['reason']}" if fields["reason"] else ""
            print(f"{fields['status']}{reason}; results lie in {self._path.parent.resolve()}", flush=True)
