"""The rows of statistics and regression in the table of models; reading them imports nothing that computes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.models.spec import ModelSpec

FAMILY = "fedlearn.statistics"
MOST_ROUNDS = 40  # of Newton's method; a fit ends as soon as it has converged, mostly after 4 to 8

_of_table = partial(ModelSpec, strategy="sums", trains_in_steps=False, imports=(f"{FAMILY}.preload",), sums=True)
_exact = partial(_of_table, all_rows=True)

DP_STATISTICS = _of_table(f"{FAMILY}.counted:dp_statistics", "adult", rounds="once", is_private=True)
STATISTICS = replace(DP_STATISTICS, build=f"{FAMILY}.counted:exact_statistics", is_private=False)
DESCRIBE = _exact(f"{FAMILY}.describe:Describe.of", "adult", rounds="once")
GLM = _exact(f"{FAMILY}.glm:GLM.of", "adult", rounds=f"{FAMILY}.rows:newton_rounds")
KAPLAN_MEIER = _exact(f"{FAMILY}.survival:KaplanMeier.of", "diabetes", rounds="once")
DP_DESCRIBE = replace(DESCRIBE, build=f"{FAMILY}.private:NoisyDescribe.of", is_private=True)
DP_KAPLAN_MEIER = replace(KAPLAN_MEIER, build=f"{FAMILY}.private:NoisyKaplanMeier.of", is_private=True)
DP_GLM = replace(
    GLM, build=f"{FAMILY}.private_glm:NoisyGLM.of", rounds=f"{FAMILY}.rows:private_rounds", is_private=True
)
COX = _exact(f"{FAMILY}.cox:Cox.of", "diabetes", rounds=f"{FAMILY}.rows:newton_rounds")
DP_COX = replace(COX, build=f"{FAMILY}.private_cox:NoisyCox.of", rounds=f"{FAMILY}.rows:cox_rounds", is_private=True)


def newton_rounds(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return the most rounds of Newton's method, whatever the settings."""
    return MOST_ROUNDS


def private_rounds(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return the rounds of a regression with noise: one for normal outcomes, else two.

    >>> private_rounds({"model.options": '{"family": "normal"}'}, RunConfig()), private_rounds({}, RunConfig())
    (1, 2)
    """
    options = flat.get("model.options") or {}
    options = json.loads(options) if isinstance(options, str) else options
    return 1 if options.get("family") == "normal" or flat.get("model.options.family") == "normal" else 2


def cox_rounds(flat: Mapping[str, Any], defaults: RunConfig) -> int:
    """Return the rounds of a Cox regression with noise: counts, then two steps of Newton's method."""
    return 3
