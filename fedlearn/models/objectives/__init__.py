"""Objectives of torch modules: a loss that is minimized, and metrics that are measured on examples.

The objective follows from the data; ``model.loss`` names another: a function (outputs, targets) -> mean loss, as
those of `torch.nn.functional`, or an `Objective` with its own metrics. Both get the outputs as the module returns them,
also a mapping or a tuple. `fedlearn.models.output_axes` says which axes of outputs and targets belong together.

Shapes: B batch, K classes, L length of a sequence.
"""

from fedlearn.models.objectives.classes import Classification, NextToken
from fedlearn.models.objectives.number_objectives import Labels, Regression
from fedlearn.models.objectives.objective import Loss, Objective
from fedlearn.models.objectives.objective_choice import OBJECTIVES, objective_for
from fedlearn.models.objectives.torch_losses import CROSS_ENTROPIES, is_one_of

__all__ = [
    "CROSS_ENTROPIES", "OBJECTIVES", "Classification", "Labels", "Loss", "NextToken", "Objective", "Regression",
    "is_one_of", "objective_for",
]  # fmt: skip
