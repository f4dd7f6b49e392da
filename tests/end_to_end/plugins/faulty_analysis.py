"""A regression whose nodes misbehave where FAULTS says so (`faulty`)."""

from dataclasses import replace

from faulty import misbehave

from client.learners.sums import ExactSumsLearner
from fedlearn.models.tables import table_of
from fedlearn.statistics.glm import GLM
from fedlearn.statistics.rows import GLM as ROW


class FaultyLearner(ExactSumsLearner):
    def fit(self, state, task):
        misbehave(task.partition_id, task.round_number)
        return super().fit(state, task)


class FaultyGLM(GLM):
    learner = "faulty_analysis:FaultyLearner"


def build(spec, options):
    return FaultyGLM(table_of("faulty", spec), **options)


ANALYSIS = replace(ROW, build="faulty_analysis:build")
