"""The rows of private trees and sums in the table of models; reading them imports neither torch nor numba."""

from __future__ import annotations

from functools import partial

from fedlearn.models.spec import ModelSpec

MODELS = "fedlearn.private_trees.federated.models"
PLANNED = "fedlearn.private_trees.federated.public_rounds:planned"

_private = partial(
    ModelSpec, is_private=True, trains_in_steps=False, imports=("fedlearn.private_trees.federated.trees_preload",)
)

DP_FOREST = _private(f"{MODELS}.forest_regression:dp_forest", "auto-regression", "forest_union", "once")
DP_RELAY = _private(f"{MODELS}.relay_model:dp_relay", "auto-regression", "relay", "turns")
DP_CLASSIFIER = _private(f"{MODELS}.forest_classification:dp_classifier", "adult", "forest_union", "once")
DP_RANDOM_FOREST = _private(f"{MODELS}.forest_classification:dp_random_forest", "adult", "forest_union", "once")
PF_FOREST = _private(f"{MODELS}.forest_classification:pf_forest", "adult", "forest_union", "once")
DP_BOOSTING = _private(f"{MODELS}.boosting_model:dp_boosting", "adult", "sums", PLANNED, sums=True)
DP_NAIVE_BAYES = _private(f"{MODELS}.naive_bayes_model:dp_naive_bayes", "adult", "sums", "once", sums=True)
