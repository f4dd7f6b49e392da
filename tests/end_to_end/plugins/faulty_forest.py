"""Private trees whose nodes misbehave where FAULTS says so (`faulty`); with ONCE, a folder, only the first time."""

import os
from pathlib import Path

from faulty import misbehave

from fedlearn.models.spec import ModelSpec
from fedlearn.private_trees.federated.learners.tree_learner import TreeLearner
from fedlearn.private_trees.federated.models.forest import Kind
from fedlearn.private_trees.federated.models.forest_regression import ForestRegressor


class FaultyTrees(TreeLearner):
    def fit(self, state, task):
        mark = Path(os.environ.get("ONCE", "/nowhere"), str(task.partition_id))
        if not mark.exists():
            if mark.parent.exists():
                mark.touch()
            misbehave(task.partition_id, task.round_number)
        return super().fit(state, task)


class FaultyForest(ForestRegressor):
    learner = "faulty_forest:FaultyTrees"


def build(spec, options):
    return Kind(FaultyForest, "fedlearn.private_trees.numbers.regression:DPEnsembleTree", False).model_for(
        "faulty", spec, options
    )


FOREST = ModelSpec(
    "faulty_forest:build", "auto-regression", "forest_union", "once", is_private=True, trains_in_steps=False
)
