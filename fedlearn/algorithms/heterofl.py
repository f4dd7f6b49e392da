"""HeteroFL: a client with a small device trains the first units of each hidden layer.

W_l of a client with ratio r are the first ceil(r d) rows and ceil(r k) columns of W (section 3, "finding a subset of
global model parameters"). The server averages each entry over the clients that have it (equations 1 and 2); with
``strategy.weighting = "uniform"`` each counts one, as in the paper. A Scaler divides the outputs of hidden layers by r
in training, so that they are as large in every slice; the whole model that is measured has none. Two further parts of
the paper are options: a masked loss, and static batch norms.

Source: Diao et al. 2021, "HeteroFL: computation and communication efficient federated learning for heterogeneous
clients" (arXiv:2010.01264).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from fedlearn.algorithms.logits import OfLogits
from fedlearn.extend import (
    SGD,
    SLICE,
    Examples,
    FedAvg,
    KeepUnits,
    LocalFit,
    LocalTask,
    Progress,
    RunConfig,
    SettingError,
    SlicedModule,
    Slicing,
    State,
    TorchModel,
    load_strategy,
    ordered_units,
    sliced_module,
)

TRIED = 2  # examples


class HeteroFL(FedAvg):
    """Averages each entry over the clients whose slice has it.

    Parameters
    ----------
    ratios : list or table, default=those of the paper
        Share of the units of each hidden layer that a client has: a list, which clients take in turns, or a table by
        kind of device, such as ``{fast = 1.0, slow = 0.25}``.
    by_data : bool, default=False
        The clients with the most examples take the largest ratios of the list, an equal number of clients each.
    scaler : bool, default=as in the paper
        Outputs of hidden layers are divided by the ratio in training.
    rule : str, default=""
        Slicing rule of one's own, ``module:function``.
    masked_loss : bool, default=False
        In training, the logits of classes that a client has no example of are 0 (section 3, "masked cross entropy").
    static_norms : bool, default=False
        Batch norms use the mean and variance of the batch in training. Those that the model is measured with are means
        over the batches of one pass after training, in place of running means (section 3, "static batch
        normalization"; there the pass is one of the averaged model, here each client makes one of its slice).

    Attributes
    ----------
    keep
        The units of a slice.
    draws
        Whether each local step draws its width.
    of_paper
        Ratios and scaler, unless given.
    """

    learner = "heterofl"
    gate = "server.features.slices:SliceGate"
    takes_stale = False
    laws: ClassVar[tuple[str, ...]] = (*FedAvg.laws, "ratio 1", "weights", "units", "masked module")
    keep: ClassVar[KeepUnits] = staticmethod(ordered_units)
    draws: ClassVar[bool] = False
    of_paper: ClassVar[tuple[tuple[float, ...], bool]] = ((1.0, 0.5, 0.25, 0.125, 0.0625), True)  # levels a to e

    def __init__(
        self,
        *,
        ratios: list[float] | dict[str, float] | None = None,
        by_data: bool = False,
        scaler: bool | None = None,
        rule: str = "",
        masked_loss: bool = False,
        static_norms: bool = False,
        uniform: bool = False,
    ) -> None:
        super().__init__(uniform=uniform)
        usual = self.of_paper
        self.scaler = usual[1] if scaler is None else scaler
        self.masked_loss, self.static_norms = masked_loss, static_norms
        self.slicing = Slicing(type(self).keep, usual[0] if ratios is None else ratios, by_data, rule, self.draws)
        if not self.slicing.levels or not all(0 < ratio <= 1 for ratio in self.slicing.levels):
            raise SettingError("strategy.options.ratios", ratios, "give one ratio or more, above 0 and at most 1")


class SliceSGD(OfLogits):
    """SGD on one slice, with the masked loss and the static batch norms of `HeteroFL`.

    Parameters
    ----------
    masked_loss, static_norms
        Which of both.
    """

    def __init__(
        self, model: TorchModel, config: RunConfig, *, masked_loss: bool, static_norms: bool, **optimizer_options: Any
    ) -> None:
        super().__init__(model, config, **optimizer_options)
        self._masked_loss, self._static_norms = masked_loss, static_norms

    def loss(self, inputs: Tensor, targets: Tensor, task: LocalTask) -> Tensor:
        """Return the loss of a batch, masked or not."""
        if self._masked_loss:
            return super().loss(inputs, targets, task)
        return SGD.loss(self, inputs, targets, task)

    def changed(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the logits; those of classes without examples on the client are 0."""
        return logits * (counts > 0)

    def fitted(self, arrays: State, task: LocalTask, progress: Progress) -> LocalFit:
        """Return the fit; static batch norms have the means over one pass."""
        norms = [
            each
            for each in self.model.module.modules()
            if isinstance(each, _BatchNorm) and each.running_mean is not None
        ]
        if not (self._static_norms and norms) or self._is_alone(task):
            return super().fitted(arrays, task, progress)
        usual = [norm.momentum for norm in norms]
        self.model.module.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.train()
            norm.momentum = None  # a mean over the batches
        with torch.no_grad():
            for start, stop in pairwise(self._cuts(task)):
                self.model.outputs(self._inputs(task.train, task.indices[start:stop]))
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum
        return super().fitted(self.model.arrays(), task, progress)


class HeteroFLSGD(SGD):
    """Trains the slice that the client was sent, as a smaller module."""

    kept_between_fits: ClassVar[tuple[str, ...]] = (*SGD.kept_between_fits, "_by_ratio")

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        super().__init__(model, config, **optimizer_options)
        self._config, self._options = config, optimizer_options
        self._strategy: Any = load_strategy(config.strategy)
        slicing = getattr(self._strategy, "slicing", None)
        self.levels: list[float] = slicing.levels if slicing else [1.0]
        self._as_in_paper = {name: getattr(self._strategy, name, False) for name in ("masked_loss", "static_norms")}
        self._by_ratio: dict[float, SGD] = {}

    @property
    def sliced(self) -> SlicedModule:
        """The whole module, with the units of its axes."""
        return sliced_module(self.model, self._config.model.name, self._strategy.slicing.rule)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the slice after local SGD on it."""
        return self.at(float(task.config.get(SLICE, 1.0))).fit(state, task)

    def fit_many(self, state: State, tasks: Iterable[LocalTask]) -> Iterator[LocalFit]:
        """Yield the slice of each of several clients; consecutive clients of one ratio are trained together."""
        for ratio, alike in groupby(tasks, key=lambda task: float(task.config.get(SLICE, 1.0))):
            yield from self.at(ratio).fit_many(state, alike)

    def why_not_stacked(self, examples: Examples) -> str:
        """Return why slices of some ratio cannot be trained together; empty if all can."""
        return next(filter(None, (self.at(ratio).why_not_stacked(examples) for ratio in self.levels)), "")

    def at(self, ratio: float) -> SGD:
        """Return the learner of a ratio, which trains a module of its size."""
        if ratio not in self._by_ratio:
            self._by_ratio[ratio] = self._learner(self.model if ratio == 1 else self._cut(ratio), ratio)
        return self._by_ratio[ratio]

    def _learner(self, model: TorchModel, ratio: float) -> SGD:
        if any(self._as_in_paper.values()):
            make: Any = SliceSGD
            learner: SGD = make(model, self._config, **self._as_in_paper, **self._options)
            return learner
        return SGD.from_settings(model, self._config)

    def _cut(self, ratio: float) -> TorchModel:
        keep, scaler = self._strategy.slicing.keep, self._strategy.scaler
        return self._made(lambda: self.sliced.cut(keep, ratio, scaler=scaler))

    def _made(self, build: Callable[[], Any]) -> TorchModel:
        return TorchModel(build, self.model.spec, self.model.objective).planned(self._config)

    def try_on(self, examples: Examples) -> None:
        """Refuse a module that cannot be sliced, or whose slices cannot take a step."""
        if self._as_in_paper["masked_loss"]:
            OfLogits.check_classes(self.model, "strategy.options.masked_loss", True)
        for ratio in self.levels:
            try:
                self.at(ratio).model.try_step(examples.at(np.arange(TRIED) % len(examples)))
            except SettingError:
                raise
            except Exception as error:
                why = f"it cannot be sliced: a step at ratio {ratio:g} fails: {error}"
                raise SettingError("model.name", self._config.model.name, why.splitlines()[0]) from error
