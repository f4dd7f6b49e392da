"""Several targets: the scale of each in the loss, and a metric of each by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlearn.core.metric import Metric
from fedlearn.data.data_spec import DataSpec


def scale_of(spec: DataSpec) -> tuple[Any, Any]:
    """Return what the loss takes as 0 and as 1: middle and half width of declared bounds, or mean and deviation.

    They are numbers; of several targets arrays, (T,).
    """
    ranges = list(spec.table.ranges.values()) if spec.table is not None and spec.table.targets else []
    low, high = np.array(ranges or [spec.target_bounds or (-1.0, 1.0)]).T
    center, unit = (low + high) / 2, (high - low) / 2
    if spec.target_mean:
        center, unit = np.array(spec.target_mean), np.array(spec.target_std)
    return (center, unit) if len(center) > 1 else (float(center[0]), float(unit[0]))


def widths_of(spec: DataSpec) -> Tensor | None:
    """Return the widths of the declared bounds of several targets, (T,); None of one target, and of others."""
    if spec.table is None or not spec.table.targets:
        return None
    ranges = torch.tensor(list(spec.table.ranges.values()), dtype=torch.float64)
    return ranges[:, 1] - ranges[:, 0]


def of_each(metric: Metric, spec: DataSpec, values: Tensor) -> dict[str, float]:
    """Return (T,) values of a metric by its names for each of several targets; none where targets have no names."""
    names = (metric.of(name).name for name in spec.target_names)
    return dict(zip(names, values.tolist(), strict=True)) if spec.target_names else {}
