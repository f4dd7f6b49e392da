"""Scores: metrics of all outputs of a set at once, as AUROC or macro F1, which are no sums over examples.

``evaluation.scores`` names them: scorers and metrics of scikit-learn, functions and objects of torchmetrics, functions
of a user's own (`chosen`). scikit-learn's and torchmetrics' get predictions (`predictions`), a user's own functions the
outputs as the module returns them. An objective may score the outputs itself (`Objective.score`).
"""

from fedlearn.models.scores.gathered import Gathered, check_size, joined, packed, unpacked
from fedlearn.models.scores.metric_inputs import Predictions
from fedlearn.models.scores.named_scores import Score, scores_of

__all__ = ["Gathered", "Predictions", "Score", "check_size", "joined", "packed", "scores_of", "unpacked"]
