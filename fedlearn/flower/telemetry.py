"""What Flower and Ray send home: nothing, unless the user has said otherwise."""

from __future__ import annotations

import os

SILENT = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def keep_silent() -> None:
    """Set the environment that Flower and Ray read when they are imported, and that their processes inherit."""
    os.environ.update({**SILENT, **os.environ})
