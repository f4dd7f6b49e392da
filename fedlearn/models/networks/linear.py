"""A linear model: logistic regression where there are classes, least squares where there are numbers."""

from __future__ import annotations

from torch import nn

from fedlearn.data.data_spec import DataSpec
from fedlearn.models.networks.shapes import flat_size, in_shape, num_outputs


class Linear(nn.Sequential):
    """One linear layer on all numbers of an example.

    Parameters
    ----------
    spec : DataSpec
        Data set of images, rows of a table or series; not of texts.

    Examples
    --------
    >>> from fedlearn.data.cifar10 import SPEC
    >>> sum(p.numel() for p in Linear(SPEC).parameters())
    30730
    """

    answers_labels = True

    def __init__(self, spec: DataSpec) -> None:
        super().__init__(nn.Flatten(), nn.Linear(flat_size(spec), num_outputs(spec)), *in_shape(spec))
