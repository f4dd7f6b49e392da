"""Differentially private trees, used like scikit-learn estimators, alone: without Flower, without torch.

Estimators are imported when the first of them is asked for, as they bring numba and scikit-learn, more than a second:
processes that only read the rows of models (`federated.rows`) do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from fedlearn.private_trees.estimators import *  # noqa: F403


LEAVING = {"DPVotedForest": "DPRelayForest has smaller errors: use DPRelayForest or DPBoostingRegressor"}
"""Estimator that the next release does not have -> why, and what to use."""


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in LEAVING:
        warn(f"{name} leaves with the next release: {LEAVING[name]}", DeprecationWarning, stacklevel=2)
    return getattr(import_module("fedlearn.private_trees.estimators"), name)


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
