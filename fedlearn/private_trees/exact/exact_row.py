"""The row of `exact-boosting` in the table of models; reading it imports nothing that computes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.models.spec import ModelSpec

FAMILY = "fedlearn.private_trees.exact"
TREES, DEPTH = 100, 5  # iterations, and levels of a tree, unless the user says others


def rounds(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return the most rounds: one for bins and start, and one for each level of the trees of each iteration.

    >>> rounds({}, RunConfig()), rounds({"model.options": '{"max_iter": 10, "max_depth": 3}'}, RunConfig())
    (501, 31)
    """
    options = flat.get("model.options") or {}
    try:
        options = json.loads(options) if isinstance(options, str) else options
        trees, depth = (
            int(flat.get(f"model.options.{name}", options.get(name, usual)))
            for name, usual in (("max_iter", TREES), ("max_depth", DEPTH))
        )
    except (AttributeError, TypeError, ValueError):  # which `options_for` refuses, by name
        return defaults.rounds.total
    return 1 + max(trees, 1) * max(depth, 1)


EXACT_BOOSTING = ModelSpec(
    f"{FAMILY}.model:exact_boosting",
    "adult",
    "sums",
    f"{FAMILY}.rows:rounds",
    trains_in_steps=False,
    imports=(f"{FAMILY}.preload",),
    sums=True,
)
