"""Evaluation of a torch module: sums over batches of fixed size, and the outputs that scores need all at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError, UsageError, said
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.model import NOTHING, Evaluation
from fedlearn.models.objectives import Objective
from fedlearn.models.output_axes import logits_of
from fedlearn.models.predicted import Predicted
from fedlearn.models.scores import Gathered, Score, check_size, packed, scores_of, unpacked
from fedlearn.models.scores.metric_inputs import SETTING
from fedlearn.models.torch.inputs import Inputs

EVALUATION_BATCH = 100  # examples; larger batches push activations out of the cache (1.3-1.7 times slower)
MOST_MADE_UP = 1_000_000  # entries of made-up outputs; a score of more is tried by the first evaluation


class Scoring:
    """The scores of a run: those of ``evaluation.scores``, and those of the objective.

    Parameters
    ----------
    given
        Text of ``evaluation.scores``.
    most_mb
        Largest size of the outputs of a set, in MB.
    """

    def __init__(self, given: str = "", most_mb: int = RunConfig().evaluation.scores_mb) -> None:
        self.given = given
        self.most_mb = most_mb
        self._scores: list[Score] | None = None

    @property
    def scores(self) -> list[Score]:
        """The scores that the settings name, found at first use: scikit-learn takes a second to import."""
        if self._scores is None:
            self._scores = scores_of(self.given)
        return self._scores

    def is_wanted(self, objective: Objective) -> bool:
        """Return whether anything is measured on all outputs at once."""
        return any(each.compute for each in self.scores) or type(objective).score is not Objective.score

    def added_to(self, metrics: Metrics) -> Metrics:
        """Return the metrics of an objective with the scores."""
        known = metrics.columns
        if twice := next((score.metric.name for score in self.scores if score.metric.name in known), ""):
            raise SettingError(SETTING, twice, f"it is measured anyway, as are {', '.join(known)}: leave it out")
        return metrics.with_scores(score.metric for score in self.scores)

    def of(self, objective: Objective, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return all scores of a set; NaN for one that is not defined, and for all of outputs with NaN."""
        own = {name: float(value) for name, value in objective.score(outputs, targets).items()}
        named = {each.metric.name: each.of(objective, outputs, targets) for each in self.scores if each.compute}
        found = {**named, **own}
        return dict.fromkeys(found, math.nan) if has_nan(outputs) else found

    def try_on(self, spec: DataSpec, objective: Objective, outputs: object, *, rows: int) -> None:
        """Raise SettingError for scores that fail on made-up outputs in which every class occurs, or need too much."""
        check_size(outputs, 2, rows, self.most_mb)
        logits = logits_of(outputs)
        if not isinstance(logits, Tensor) or logits.ndim == 0:
            return
        count = max(2 * spec.classes, 8)
        drawn = torch.rand((count, *logits.shape[1:]), generator=torch.Generator().manual_seed(1))
        if drawn.numel() > MOST_MADE_UP:
            return
        places = np.arange(count * math.prod(spec.target_shape)).reshape(count, *spec.target_shape)
        targets = objective.targets(places % spec.classes if spec.classes else (places + places // 2) % 2 + 0.0)
        for score in self.scores:
            try:
                if score.compute is not None:
                    score.compute(objective, drawn, targets)
            except Exception as error:  # a library's or a user's own
                why = (
                    f"it fails on made-up outputs of shape {tuple(drawn.shape)}: {type(error).__name__}: {said(error)}"
                )
                raise SettingError(SETTING, score.metric.name, why) from error
        if isinstance(outputs, Tensor):
            declared = {metric.name for metric in objective.metrics.evaluated if metric.is_score}
            if missing := sorted(objective.score(drawn, targets).keys() - declared):
                name = type(objective).__name__
                what = f"{name}.score returns {missing[0]!r}, which {name}.metrics does not have as evaluated"
                raise SettingError("model.loss", name, f"{what}: add Metric({missing[0]!r}, ..., is_score=True)")


class Evaluating(Protocol):
    """What is evaluated: a module with its objective, as `fedlearn.models.torch.torch_model.TorchModel` holds them."""

    scoring: Scoring
    module: nn.Module
    device: torch.device
    inputs: Inputs
    decodes: bool

    @property
    def objective(self) -> Objective:
        """The loss and the metrics."""
        ...

    def load(self, state: State) -> None:
        """Copy a state into the module."""
        ...

    def outputs(self, inputs: Tensor) -> Any:
        """Return the module's outputs for a batch."""
        ...

    def passed(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what the module gets of a batch, and by keyword."""
        ...

    def with_targets(self, inputs: Tensor, targets: NDArray[Any]) -> Tensor:
        """Return inputs, followed by what a decoder gets of the targets."""
        ...

    def drawing(self, *, is_foreign: bool = False) -> AbstractContextManager[object]:
        """Seed all generators in the block."""
        ...


def evaluate(model: Evaluating, state: State, examples: Examples) -> Evaluation:
    """Return the sums of metrics over the examples, and the outputs of all of them where scores need them."""
    model.load(state)
    model.module.eval()
    total, objective = NOTHING, model.objective
    gathered = Gathered(len(examples), model.scoring.most_mb) if model.scoring.is_wanted(objective) else None
    with torch.inference_mode(), model.drawing():
        for start in range(0, len(examples), EVALUATION_BATCH):
            batch = slice(start, start + EVALUATION_BATCH)
            outputs = model.outputs(_inputs(model, examples.at(batch)))
            targets = objective.targets(np.array(examples.targets[batch]))
            if isinstance(outputs, Tensor):
                outputs = outputs.cpu()
            else:
                targets = targets.to(model.device)
            measured, weights = objective.evaluated(outputs, targets)
            if has_nan(outputs):
                measured = dict.fromkeys(measured, math.nan)  # outputs with NaN count neither as right nor as wrong
            total += Evaluation(measured, len(targets), objective.confusion(outputs, targets), weights=weights)
            if gathered is not None:
                gathered.add(outputs, len(targets))
    total = replace(total, sums={**total.sums, **_judged(model, state, examples)})
    return total if gathered is None or not len(examples) else replace(total, outputs=(packed(gathered.batches),))


def _inputs(model: Evaluating, examples: Examples) -> Tensor:
    return model.with_targets(model.inputs(np.array(examples.inputs)), examples.targets)


def try_judges(model: Evaluating, examples: Examples) -> None:
    """Raise SettingError for a score that calls the module itself and fails on a few examples."""
    for score in model.scoring.scores:
        if score.judge is None:
            continue
        passed, named = model.passed(_inputs(model, examples))
        targets = model.objective.targets(np.array(examples.targets)).to(model.device)
        try:
            with torch.inference_mode(), model.drawing(is_foreign=True):
                score.judged(model.module.eval(), passed, named, targets)
        except Exception as error:  # a user's own
            why = f"it fails on {len(examples)} examples: {type(error).__name__}: {said(error)}"
            raise SettingError(SETTING, score.metric.name, why) from error


def _judged(model: Evaluating, state: State, examples: Examples) -> dict[str, float]:
    """Return the sums of the scores that call the module themselves; each gets it with the state loaded anew."""
    found: dict[str, float] = {}
    for score in model.scoring.scores:
        if score.judge is None:
            continue
        model.load(state)
        total = 0.0
        with torch.inference_mode(), model.drawing(is_foreign=True):
            for start in range(0, len(examples), EVALUATION_BATCH):
                part = examples.at(slice(start, start + EVALUATION_BATCH))
                passed, named = model.passed(_inputs(model, part))
                targets = model.objective.targets(np.array(part.targets)).to(model.device)
                total += score.sum_of(model.module.eval(), passed, named, targets)
        found[score.metric.name] = total
    return found


def answers(model: Evaluating, state: State, inputs: NDArray[Any], spec: DataSpec) -> Predicted:
    """Return the predictions for examples whose targets are not known, in the batches of an evaluation.

    Outputs that the objective cannot read, as those of a loss of the user's own, are returned as they are.

    Raises
    ------
    UsageError
        If the outputs are NaN, or neither known nor one tensor; or if the module needs the targets.
    """
    if model.decodes:
        raise UsageError("the model's decoder needs the targets, which such rows have not: call run.model().generate")
    model.load(state)
    model.module.eval()
    parts = [Predicted(np.zeros((0, *spec.target_shape)), np.zeros((0, *spec.target_shape, spec.classes)))]
    with torch.inference_mode(), model.drawing():
        for start in range(0, len(inputs), EVALUATION_BATCH):
            batch = np.array(inputs[start : start + EVALUATION_BATCH])
            parts.append(_answers(model, model.outputs(model.inputs(batch)), len(batch), spec))
    return Predicted.joined(parts[1:] or parts)


def _answers(model: Evaluating, outputs: Any, count: int, spec: DataSpec) -> Predicted:
    zeros = np.zeros((count, *spec.target_shape), np.int64 if spec.classes else np.float64)
    outputs = outputs.cpu() if isinstance(outputs, Tensor) else outputs
    if has_nan(outputs):
        raise UsageError("the model's outputs for these rows are NaN: it has diverged, and predicts nothing")
    if (found := model.objective.answers(outputs, model.objective.targets(zeros))) is not None:
        return found
    logits = logits_of(outputs)
    if not isinstance(logits, Tensor):
        raise UsageError("the objective has no predictions of such outputs: call run.model() on run.inputs(rows)")
    return Predicted(logits.numpy())


def scores(model: Evaluating, outputs: Sequence[bytes], targets: NDArray[Any]) -> dict[str, float]:
    """Return the scores of a set from the packed outputs of its parts."""
    with torch.inference_mode(), model.drawing(is_foreign=":" in model.scoring.given):
        return model.scoring.of(model.objective, unpacked(outputs), model.objective.targets(np.array(targets)))


def has_nan(outputs: Any) -> bool:
    """Return whether any number among a module's outputs is NaN."""
    if isinstance(outputs, Tensor):
        return outputs.is_floating_point() and bool(outputs.isnan().any())
    if isinstance(outputs, Mapping):
        outputs = outputs.values()
    elif not isinstance(outputs, tuple | list):
        return False
    return any(map(has_nan, outputs))
