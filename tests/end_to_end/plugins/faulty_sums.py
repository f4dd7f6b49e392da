"""Boosting on sums whose nodes misbehave where FAULTS says so (`faulty`)."""

from faulty import misbehave

from client.learners.sums_learner import SumsLearner
from fedlearn.models.spec import ModelSpec
from fedlearn.private_trees.federated.models.boosting_model import Boosting
from fedlearn.private_trees.federated.models.table_checks import table_of


class FaultyCounting(SumsLearner):
    def fit(self, state, task):
        misbehave(task.partition_id, task.round_number)
        return super().fit(state, task)


class FaultyBoosting(Boosting):
    learner = "faulty_sums:FaultyCounting"


def build(spec, options):
    return FaultyBoosting(table_of("faulty", spec))


SUMS = ModelSpec(
    "faulty_sums:build",
    "adult",
    "sums",
    "fedlearn.private_trees.federated.public_rounds:planned",
    is_private=True,
    trains_in_steps=False,
    sums=True,
)
