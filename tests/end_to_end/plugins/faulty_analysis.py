"""Regressions whose nodes misbehave where FAULTS says so (`faulty`)."""

from dataclasses import replace

from faulty import misbehave

from client.learners.sums_learner import ExactSumsLearner
from fedlearn.statistics import statistics_rows
from fedlearn.statistics.cox import Cox
from fedlearn.statistics.glm import GLM


class FaultyLearner(ExactSumsLearner):
    def fit(self, state, task):
        misbehave(task.partition_id, task.round_number)
        return super().fit(state, task)


class FaultyGLM(GLM):
    learner = "faulty_analysis:FaultyLearner"


class FaultyCox(Cox):
    learner = "faulty_analysis:FaultyLearner"


ANALYSIS = replace(statistics_rows.GLM, build="faulty_analysis:FaultyGLM.of")
COX = replace(statistics_rows.COX, build="faulty_analysis:FaultyCox.of")
