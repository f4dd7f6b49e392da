"""What a model says of examples whose targets nobody knows; this module imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import Model


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predictions of N examples.

    Parameters
    ----------
    guess
        Shape (N, ...), that of the targets: numbers of classes; labels, 0 or 1; or numbers in the unit of the targets.
    shares
        Probabilities: (N, ..., K) of K classes, the shape of `guess` of labels; None of numbers.
    are_labels
        Whether `guess` holds labels, of which an example may have several.

    Examples
    --------
    >>> Predicted.of_classes(np.array([[0.2, 0.8]])).guess
    array([1])
    """

    guess: NDArray[Any]
    shares: NDArray[np.float64] | None = None
    are_labels: bool = False

    @classmethod
    def of_classes(cls, shares: NDArray[np.float64]) -> Predicted:
        """Return the likeliest class of each example, the first of several."""
        return cls(shares.argmax(axis=-1), shares)

    @classmethod
    def joined(cls, parts: Sequence[Predicted]) -> Predicted:
        """Return the predictions of several batches, in order."""
        shares = [part.shares for part in parts if part.shares is not None]
        guess = np.concatenate([part.guess for part in parts])
        return cls(guess, np.concatenate(shares) if shares else None, parts[0].are_labels)


def predicted(model: Model, state: State, inputs: NDArray[Any], spec: DataSpec) -> Predicted:
    """Return what a model with this state predicts for examples as the data set of `spec` holds them.

    A torch module answers by its objective. Any other model answers by ``shares(state, inputs)``, (N, classes), or by
    ``predict(state, inputs)``, (N,), which private trees have.

    Raises
    ------
    UsageError
        If the model has neither.
    """
    made: Any = model
    if hasattr(made, "objective"):
        from fedlearn.models.torch.evaluating import answers

        return answers(made, state, inputs, spec)
    if spec.classes and hasattr(made, "shares"):
        return Predicted.of_classes(made.shares(state, inputs))
    if not spec.classes and hasattr(made, "predict"):
        return Predicted(made.predict(state, inputs))
    raise UsageError(f"{type(model).__name__}: this model predicts nothing for new rows")
