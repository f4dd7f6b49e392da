"""Predictions in words: names of classes and targets, a threshold, the likeliest classes, columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.predicted import Predicted

PREDICTION, PROBABILITY = "prediction", "probability"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How predictions are to be given.

    Parameters
    ----------
    threshold
        Least probability of the second of two classes, or of a label that is present.
    top
        How many of the likeliest classes are given.
    """

    threshold: float | None = None
    top: int | None = None

    def check(self, spec: DataSpec, *, are_labels: bool = False) -> None:
        """Refuse what predictions of this kind have not.

        Raises
        ------
        UsageError
            With the parameter, and the values that are allowed.
        """
        if self.threshold is not None:
            if spec.classes != 2 and not are_labels:
                what = f"{spec.classes} classes" if spec.classes else "numbers"
                raise UsageError(f"threshold: for two classes or several labels, and the run predicts {what}")
            if not 0 < self.threshold < 1:
                raise UsageError(f"threshold = {self.threshold}: a probability, between 0 and 1")
        if self.top is not None and not 1 <= self.top <= max(spec.classes, 0):
            what = f"from 1 to {spec.classes}" if spec.classes else "for classes, and the run predicts numbers"
            raise UsageError(f"top = {self.top}: {what}")


def named(spec: DataSpec, found: Predicted, wanted: Wanted) -> NDArray[Any]:
    """Return the predictions as names of classes if they have names; as numbers otherwise."""
    wanted.check(spec, are_labels=found.are_labels)
    return _names(spec, _chosen(found, wanted))


def _names(spec: DataSpec, codes: NDArray[Any]) -> NDArray[Any]:
    return np.array(spec.class_names)[codes.astype(int)] if spec.class_names else codes


def _chosen(found: Predicted, wanted: Wanted) -> NDArray[Any]:
    if found.shares is None:
        return found.guess
    if wanted.top is not None:
        return np.argsort(-found.shares, axis=-1, kind="stable")[..., : wanted.top]
    if wanted.threshold is None:
        return found.guess
    shares = found.shares if found.are_labels else found.shares[..., 1]
    return (shares >= wanted.threshold).astype(np.int64)


def probabilities(found: Predicted) -> NDArray[np.float64]:
    """Return the probabilities; raise UsageError where numbers are predicted."""
    if found.shares is None:
        raise UsageError("the run predicts numbers, which have no probabilities: call predict")
    return found.shares


def target_names(spec: DataSpec) -> tuple[str, ...]:
    """Return the names of several targets: as the user's frame named them, else numbered; none for one target.

    >>> target_names(DataSpec("weather", (3,), "float32", target_shape=(2,)))
    ('prediction_0', 'prediction_1')
    """
    if len(spec.target_shape) != 1:
        return ()
    return spec.target_names or tuple(f"{PREDICTION}_{place}" for place in range(spec.target_shape[0]))


def columns(spec: DataSpec, found: Predicted, wanted: Wanted, *, proba: bool) -> dict[str, Any]:
    """Return the columns of a table of predictions: name -> values.

    Parameters
    ----------
    proba
        Whether there is a column with the probability of each class or label.
    """
    names, answers = target_names(spec), named(spec, found, wanted)
    table: dict[str, Any] = {}
    is_one_class = bool(spec.classes) and answers.ndim == (1 if wanted.top is None else 2)
    if wanted.top is not None and is_one_class:
        ranked = -np.sort(-probabilities(found), axis=-1)
        for place in range(wanted.top):
            table |= {f"{PREDICTION}_{place + 1}": answers[:, place], f"{PROBABILITY}_{place + 1}": ranked[:, place]}
    elif names and answers.ndim == 2:
        table = {name: answers[:, place] for place, name in enumerate(names)}
    else:
        table = {PREDICTION: answers if answers.ndim == 1 else answers.tolist()}
    return table | (_shares(spec, found, names) if proba else {})


def _shares(spec: DataSpec, found: Predicted, names: tuple[str, ...]) -> dict[str, Any]:
    shares = probabilities(found)
    each = names if found.are_labels else spec.class_names or tuple(map(str, range(spec.classes)))
    if shares.ndim != 2 or len(each) != shares.shape[1]:
        return {PROBABILITY: shares.tolist()}
    return {f"{PROBABILITY}_{name}": shares[:, place] for place, name in enumerate(each)}
