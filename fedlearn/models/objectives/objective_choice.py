"""Choice of an objective: by ``model.loss``, or by the data."""

from __future__ import annotations

from torch import nn

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.objectives.classes import Classification, NextToken
from fedlearn.models.objectives.counted_targets import check_reduction
from fedlearn.models.objectives.number_objectives import Counts, Labels, Regression
from fedlearn.models.objectives.objective import Objective
from fedlearn.models.objectives.torch_losses import LOSSES_OF_LABELS, OF_COUNTS, is_one_of
from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry

OBJECTIVES = Registry(
    "model.loss",
    tables.OBJECTIVES,
)


def objective_for(spec: DataSpec, given: object = "") -> Objective:
    """Return the objective of a module for a data set.

    Parameters
    ----------
    spec
        Shape, classes and bounds of the data.
    given
        Value of ``model.loss``. Empty: the objective follows from the data. Else a name in `OBJECTIVES`, a
        ``module:name``, or an object: an `Objective` or its class; or a loss (outputs, targets) -> mean, as a function,
        a module or the class of one, which replaces the loss of the data's objective.

    Raises
    ------
    SettingError
        If `given` is none of these.
    """
    if not given:
        return _of_data(spec)(spec)
    found = OBJECTIVES.load(given) if isinstance(given, str) else given
    if isinstance(found, Objective):
        return found
    if isinstance(found, type) and issubclass(found, Objective):
        return found(spec)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = found()
    if not callable(found) or isinstance(found, type):
        raise SettingError("model.loss", given, "it is neither a function (outputs, targets) nor an Objective")
    check_reduction(found)
    if is_one_of(OF_COUNTS, found):
        return Counts(spec, found)
    if is_one_of(LOSSES_OF_LABELS, found):
        return Labels(spec, found)
    return _of_data(spec)(spec, found)


def _of_data(spec: DataSpec) -> type[Classification | Regression]:
    if not spec.classes:
        return Regression
    return NextToken if spec.vocabulary == spec.classes else Classification
