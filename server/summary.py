"""summary.json: the results of a run in one small file."""

from __future__ import annotations

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.run_folder import RunFolder
from fedlearn.state import State
from server.rounds import Rounds


def write_summary(folder: RunFolder, rounds: Rounds, config: RunConfig, *, status: str, reason: str) -> None:
    """Write what came of the run, however it ended; all numbers are of committed rounds."""
    history = rounds.store.history
    evaluated, best = history.evaluated, history.best
    bytes_up = sum(record.bytes_up for record in history.rounds)
    uploads = sum(record.uploads for record in history.rounds)
    folder.write_summary(
        {
            "status": status,
            "reason": reason,
            "dataset": config.data.dataset,
            "dataset_notice": config.data.notice,
            "model": config.model.name,
            "accuracy": evaluated.accuracy if evaluated else None,
            "loss": evaluated.loss if evaluated else None,
            "best_accuracy": best.accuracy if best else None,
            "best_round": best.round_number if best else None,
            "rounds": len(history.rounds),
            "clients": config.clients,
            "bytes_up": bytes_up,
            "bytes_down": sum(record.bytes_down for record in history.rounds),
            "bytes_protocol": sum(record.bytes_protocol for record in history.rounds),
            "compression_ratio": _plain_bytes(rounds.store.state) * uploads / bytes_up if bytes_up else None,
            "seconds": round(rounds.seconds, 3),
            "seed": config.seed,
            "model_sha256": rounds.store.model_sha256,
        }
    )


def _plain_bytes(state: State) -> int:
    """Return the size of one report that sends everything: what the compression ratio is measured against."""
    return wire.bytes_of(wire.plain_report(state))
