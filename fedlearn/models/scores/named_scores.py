"""The scores that ``evaluation.scores`` names: what each is called with, and which values are better.

| named | is called with |
|---|---|
| a scorer of scikit-learn, as ``f1_macro``, ``roc_auc``, ``neg_log_loss`` | what an estimator with these predictions would answer |
| a function of ``sklearn.metrics``, as ``cohen_kappa_score``; any whose first parameter is ``y_true`` or ``y1`` | the truth; then classes for ``y_pred``, else probabilities |
| a metric of torchmetrics: what has ``update`` and ``compute``; or a function whose first parameter is ``preds`` | probabilities, or numbers; then the truth |
| a function whose first parameter is ``module`` | the module, a batch of its inputs, and the targets; it returns a number for each example, whose mean counts |
| any other function, ``module:name`` | outputs as the module returns them, and targets as the loss gets them |

A score that is not defined is missing: one of scikit-learn or torchmetrics where all examples have one class, one that
is NaN, and one that raises an error, which a line says once.
"""  # noqa: E501

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor

from fedlearn.cache.trusted import say_once
from fedlearn.core.errors import SettingError, said
from fedlearn.core.metric import Metric
from fedlearn.models.scores.metric_inputs import SETTING, Predicting, predicted
from fedlearn.plugins.objects import is_reference, name_in
from fedlearn.plugins.registry import call_plugin, load_plugin

TRUTH = ("y_true", "y1")  # first parameters of scikit-learn's metrics
BETTER = {"_score": "up", "_loss": "down", "_error": "down", "_deviance": "down"}  # scikit-learn's rule for names


@dataclass(frozen=True, slots=True)
class Score:
    """One score.

    Parameters
    ----------
    compute
        Function of the objective, all outputs and all targets; NaN where the score is not defined.
    judge
        Function of the module, a batch of inputs and its targets, which returns a number for each example; in place of
        `compute`.
    """

    metric: Metric
    compute: Callable[[Predicting, Any, Tensor], float] | None = None
    judge: Callable[..., Any] | None = None

    def of(self, objective: Predicting, outputs: Any, targets: Tensor) -> float:
        """Return the score of a set; NaN where it is not defined, or fails, which a line says once."""
        assert self.compute is not None
        try:
            return self.compute(objective, outputs, targets)
        except Exception as error:  # a library's or a user's own
            return self._missing(error)

    def sum_of(self, module: Any, inputs: Tensor, named: Mapping[str, Tensor], targets: Tensor) -> float:
        """Return the sum of what the user's function says of each example of a batch; NaN where it fails.

        It gets those of the module's further arguments that it has parameters for.
        """
        try:
            return float(self.judged(module, inputs, named, targets).sum())
        except Exception as error:  # a user's own
            return self._missing(error)

    def judged(self, module: Any, inputs: Tensor, named: Mapping[str, Tensor], targets: Tensor) -> Tensor:
        """Return what the user's function says of each example of a batch; raise an error where it fails."""
        assert self.judge is not None
        known = {name: each for name, each in named.items() if name in _parameters(self.judge)}
        found = torch.as_tensor(self.judge(module, inputs, targets.clone(), **known)).double()
        if found.shape != targets.shape[:1]:
            shape = tuple(found.shape)
            raise ValueError(f"it returned shape {shape} for {len(targets)} examples: return a number for each")
        return found

    def _missing(self, error: Exception) -> float:
        say_once(f"{SETTING}: {self.metric.name} is missing where it fails: {type(error).__name__}: {said(error)}")
        return nan


def scores_of(given: str) -> list[Score]:
    """Return the scores that the text of the setting names.

    Raises
    ------
    SettingError
        If one is not found, has no name or that of another.
    """
    found = [score for entry in json.loads(given or "[]") for score in _scores(entry)]
    names = [score.metric.name for score in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise SettingError(SETTING, twice, "two scores have this name: give one of them in a function of another name")
    return found


def _scores(entry: str | Mapping[str, Mapping[str, Any]]) -> Iterator[Score]:
    reference, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
    if ":" not in reference:
        from fedlearn.models.scores.scikit import function_or_scorer

        found = function_or_scorer(reference)
    else:
        found = load_plugin(SETTING, reference)
    is_named = ":" in reference and not is_reference(reference) and not hasattr(found, "__name__")
    name = name_in(reference).lower() if is_named else ""  # of an object in a module
    if isinstance(found, type):
        found, options = call_plugin(SETTING, reference, found, **options), {}
    if not hasattr(found, "update") or not hasattr(found, "compute"):
        yield _of_function(reference, partial(found, **options) if options else found, name)
    elif hasattr(found, "items"):  # a MetricCollection
        yield from (_of_torchmetrics(str(each), metric) for each, metric in found.items())
    else:
        yield _of_torchmetrics(name or _snake(type(found).__name__), found)


def _of_function(reference: str, function: Any, name: str) -> Score:
    if not callable(function):
        kind = type(function).__name__
        raise SettingError(SETTING, reference, f"it is neither a function nor a metric, but a {kind}")
    is_short = ":" not in reference and not isinstance(function, partial)
    name = reference if is_short else name or _name_of(function)
    if not name.isidentifier():
        raise SettingError(SETTING, reference, f"its name is {name!r}: give a function with a name, by def")
    first, *_ = (*_parameters(function), "")
    if first in ("estimator", *TRUTH):
        from fedlearn.models.scores.scikit import bounds_of, scored

        better = "up" if first == "estimator" else _better(function, name)
        return Score(_metric(name, better, *bounds_of(name)), partial(scored, function, name))
    if first == "module":
        judged = replace(_metric(name, _better(function, name) or "up"), note="mean over examples", is_score=False)
        return Score(judged, judge=function)
    compute = partial(_of_predictions, function, name) if first == "preds" else partial(_of_outputs, function)
    return Score(_metric(name, _better(function, name)), compute)


def _of_torchmetrics(name: str, metric: Any) -> Score:
    is_better = getattr(metric, "higher_is_better", None)
    better = "" if is_better is None else "up" if is_better else "down"
    low, high = (getattr(metric, f"plot_{end}_bound", None) for end in ("lower", "upper"))
    return Score(_metric(name, better, low, high), partial(_of_object, metric, name))


def _metric(name: str, better: Any, low: float | None = None, high: float | None = None) -> Metric:
    note = "of all outputs at once"
    return Metric(name, better=better, headline=bool(better), low=low, high=high, note=note, is_score=True)


def _better(function: Any, name: str) -> str:
    while isinstance(function, partial):
        function, name = function.func, _name_of(function.func)
    own = getattr(function, "better", None)
    return own if own in ("up", "down") else next((way for end, way in BETTER.items() if name.endswith(end)), "")


def _of_outputs(function: Any, _: Predicting, outputs: Any, targets: Tensor) -> float:
    return float(function(deepcopy(outputs), targets.clone()))  # a function may write to what it is given


def _of_object(metric: Any, name: str, objective: Predicting, outputs: Any, targets: Tensor) -> float:
    def computed(preds: Tensor, target: Tensor) -> Any:
        fresh = deepcopy(metric)
        fresh.reset()
        fresh.update(preds, target)
        return fresh.compute()

    kind = _snake(type(metric).__name__)  # names of collections are a user's own
    return _of_predictions(computed, f"{kind}_{name}", objective, outputs, targets)


def _of_predictions(function: Any, name: str, objective: Predicting, outputs: Any, targets: Tensor) -> float:
    """Return a score of torchmetrics, which takes probabilities or numbers, and the truth."""
    found = predicted(objective, outputs, targets)
    if not found.defines(name):
        return nan
    preds = torch.from_numpy(found.guess if found.shares is None else found.shares)
    if name.startswith("binary") and preds.ndim == 2 and preds.shape[1] == 2:
        preds = preds[:, 1]
    return float(function(preds, torch.from_numpy(found.truth)))


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # C code
        return []


def _name_of(function: Any) -> str:
    """Return the name of a function; of a partial one, with the words that it was given.

    >>> _name_of(partial(_name_of, average="macro", beta=2))
    '_name_of_macro'
    """
    if isinstance(function, partial):
        words = [value for value in function.keywords.values() if isinstance(value, str)]
        return "_".join([_name_of(function.func), *words])
    function = getattr(function, "_score_func", function)  # of a scorer of scikit-learn's
    return str(getattr(function, "__name__", _snake(type(function).__name__)))


def _snake(name: str) -> str:
    """Return the name of a class as that of a column.

    >>> _snake("MulticlassCalibrationError"), _snake("BinaryAUROC")
    ('multiclass_calibration_error', 'binary_auroc')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
