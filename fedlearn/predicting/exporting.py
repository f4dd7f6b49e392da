"""A trained network as a file of ONNX or of torch.export, which gives the numbers of `predict_proba` or `predict`."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlearn.core.errors import UsageError
from fedlearn.models.objectives import Classification, Labels, Regression
from fedlearn.models.objectives.number_objectives import Counts
from fedlearn.models.output_axes import logits_of
from fedlearn.plugins.tracebacks import shortened
from fedlearn.predicting.predictor import Predictor

BATCH = 2  # rows of the example by which a network is followed
INPUTS, OUTPUTS = "inputs", "outputs"
NEEDED = ("onnx", "onnxscript")


class Answering(nn.Module):
    """A network with the last step of its objective: probabilities of classes and labels, numbers in their own unit."""

    def __init__(
        self, network: nn.Module, objective: Any, passed: Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]]
    ) -> None:
        super().__init__()
        self.network = network
        self._objective = objective
        self._passed = passed

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the answers for a batch."""
        passed, named = self._passed(inputs)
        outputs: Tensor = logits_of(self.network(passed, **named))
        return _answer(self._objective, outputs)


def _answer(objective: Any, outputs: Tensor) -> Tensor:
    if isinstance(objective, Classification):
        return outputs.softmax(1 if objective.class_axis is None else objective.class_axis)
    if isinstance(objective, Labels):
        return outputs if objective.threshold else outputs.sigmoid()
    if isinstance(objective, Counts):
        return outputs.exp() if objective.is_log else outputs
    if isinstance(objective, Regression) and not objective.takes_any:
        unit, center = (torch.as_tensor(each, dtype=torch.float32) for each in (objective.unit, objective.center))
        return outputs * unit + center
    return outputs


def exported(predictor: Predictor, kind: str, path: Path | None, folder: Path) -> Path:
    """Write a network and its preparation; return the path of the network.

    Raises
    ------
    UsageError
        If there is no such kind, a package is missing, the model is no network, or it cannot be followed.
    """
    if kind not in _KINDS:
        raise UsageError(f"export {kind!r}: give {' or '.join(map(repr, _KINDS))}")
    ending, write = _KINDS[kind]
    model: Any = predictor.model
    if not hasattr(model, "module"):
        raise UsageError(
            f"export: the model is no network: save run.state, or the rules of a forest, instead of {kind}"
        )
    if kind == "onnx" and (absent := [name for name in NEEDED if find_spec(name) is None]):
        raise UsageError(f"export 'onnx' needs {' and '.join(absent)}: pip install \"fedlearn[onnx]\"")
    path = folder / f"model{ending}" if path is None else path
    model.load(predictor.state)
    answering = Answering(model.module, model.objective, model.passed).eval()
    spec = predictor.spec
    inputs = model.inputs(np.zeros((BATCH, *spec.shape), spec.dtype))
    try:
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            write(answering, inputs, path)
    except Exception as error:  # torch raises anything on code that it cannot follow
        raise UsageError(f"export {kind!r}: torch cannot follow the network: {shortened(error)}") from error
    predictor.preparation.save(path.with_name(f"{path.stem}.preparation.json"))
    return path


def _write_program(answering: nn.Module, inputs: Tensor, path: Path) -> None:
    torch.export.save(_followed(answering, inputs), path)


def _write_onnx(answering: nn.Module, inputs: Tensor, path: Path) -> None:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        program = torch.onnx.export(
            _followed(answering, inputs), dynamo=True, input_names=[INPUTS], output_names=[OUTPUTS], verbose=False
        )
        assert program is not None
        program.save(path)
    finally:
        logging.disable(before)


def _followed(answering: nn.Module, inputs: Tensor) -> torch.export.ExportedProgram:
    """Return the program of a network, for batches of any length."""
    return torch.export.export(answering, (inputs,), dynamic_shapes=({0: torch.export.Dim("rows")},))


_KINDS: dict[str, tuple[str, Callable[[nn.Module, Tensor, Path], None]]] = {
    "onnx": (".onnx", _write_onnx),
    "torch-export": (".pt2", _write_program),
}
"""Kind -> the ending of its file, and the function that writes it."""
