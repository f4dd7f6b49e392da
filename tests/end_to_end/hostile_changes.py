"""Changes that a hostile node makes of the model `plugins/odd_nodes.py`, for replays of runs that protect nodes."""

from __future__ import annotations

import numpy as np

FAR = {"scale": 0.0, "weight": 1e3, "bias": 0.0}
HOSTILE = {
    "far in one parameter": FAR,
    "far in the parameter without a dimension": {"scale": -1e6, "weight": 0.0, "bias": 0.0},
    "just the norm, in all entries": {"scale": 1 / 6, "weight": 1 / 6, "bias": 1 / 6},
    "beyond float32": {"scale": 1e200, "weight": 3e38, "bias": -3e38},
    "no number": {"scale": 0.0, "weight": np.nan, "bias": 0.0},
}
