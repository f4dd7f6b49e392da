"""HeteroFL: a client with a small device trains the first units of each hidden layer.

W_l of a client with ratio r are the first ceil(r d) rows and ceil(r k) columns of W (section 3, "finding a subset of
global model parameters"). The server averages each entry over the clients that have it (equations 1 and 2); with
``strategy.weighting = "uniform"`` each counts one, as in the paper. A Scaler divides the outputs of hidden layers by r
in training, so that they are as large in every slice; the whole model that is measured has none.

Source: Diao et al. 2021, "HeteroFL: computation and communication efficient federated learning for heterogeneous
clients" (arXiv:2010.01264).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from fedlearn.extend import (
    SGD,
    SLICE,
    Examples,
    FedAvg,
    KeepUnits,
    LocalFit,
    LocalTask,
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

    Attributes
    ----------
    keep
        The units of a slice.
    of_paper
        Ratios and scaler, unless given.
    """

    learner = "heterofl"
    gate = "server.features.slices:SliceGate"
    takes_stale = False
    laws: ClassVar[tuple[str, ...]] = (*FedAvg.laws, "ratio 1", "weights", "units", "masked module")
    keep: ClassVar[KeepUnits] = staticmethod(ordered_units)
    of_paper: ClassVar[tuple[tuple[float, ...], bool]] = ((1.0, 0.5, 0.25, 0.125, 0.0625), True)  # levels a to e

    def __init__(
        self,
        *,
        ratios: list[float] | dict[str, float] | None = None,
        by_data: bool = False,
        scaler: bool | None = None,
        rule: str = "",
        uniform: bool = False,
    ) -> None:
        super().__init__(uniform=uniform)
        usual = self.of_paper
        self.scaler = usual[1] if scaler is None else scaler
        self.slicing = Slicing(type(self).keep, usual[0] if ratios is None else ratios, by_data, rule)
        if not self.slicing.levels or not all(0 < ratio <= 1 for ratio in self.slicing.levels):
            raise SettingError("strategy.options.ratios", ratios, "give one ratio or more, above 0 and at most 1")


class HeteroFLSGD(SGD):
    """Trains the slice that the client was sent, as a smaller module."""

    kept_between_fits: ClassVar[tuple[str, ...]] = (*SGD.kept_between_fits, "_by_ratio")

    def __init__(self, model: TorchModel, config: RunConfig, **optimizer_options: Any) -> None:
        super().__init__(model, config, **optimizer_options)
        self._config, self._options = config, optimizer_options
        self._strategy: Any = load_strategy(config.strategy)
        slicing = getattr(self._strategy, "slicing", None)
        self.levels: list[float] = slicing.levels if slicing else [1.0]
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
        return SGD.from_settings(model, self._config)

    def _cut(self, ratio: float) -> TorchModel:
        keep, scaler = self._strategy.slicing.keep, self._strategy.scaler
        return self._made(lambda: self.sliced.cut(keep, ratio, scaler=scaler))

    def _made(self, build: Callable[[], Any]) -> TorchModel:
        return TorchModel(build, self.model.spec, self.model.objective).planned(self._config)

    def try_on(self, examples: Examples) -> None:
        """Refuse a module that cannot be sliced, or whose slices cannot take a step."""
        for ratio in self.levels:
            try:
                self.at(ratio).model.try_step(examples.at(np.arange(TRIED) % len(examples)))
            except SettingError:
                raise
            except Exception as error:
                why = f"it cannot be sliced: a step at ratio {ratio:g} fails: {error}"
                raise SettingError("model.name", self._config.model.name, why.splitlines()[0]) from error
