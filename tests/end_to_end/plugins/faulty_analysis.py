"""Regressions and boosted trees whose nodes misbehave where FAULTS says so (`faulty`)."""

from dataclasses import replace

from faulty import misbehave

from client.learners.sums_learner import ExactSumsLearner
from fedlearn.models.models_of_tables import table_of
from fedlearn.plugins.options import options_for
from fedlearn.private_trees.exact.exact_model import ExactBoosting
from fedlearn.private_trees.exact.exact_row import EXACT_BOOSTING
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


class FaultyBoosting(ExactBoosting):
    learner = "faulty_analysis:FaultyLearner"


def boosting(spec, options):
    given = options_for(FaultyBoosting, options, setting="model.options", reserved=("schema",))
    return FaultyBoosting(table_of("boosting", spec), **given)


ANALYSIS = replace(statistics_rows.GLM, build="faulty_analysis:FaultyGLM.of")
COX = replace(statistics_rows.COX, build="faulty_analysis:FaultyCox.of")
BOOSTED = replace(EXACT_BOOSTING, build="faulty_analysis:boosting")
