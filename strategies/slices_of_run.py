"""The slices of a run: which entries of the state each client has in a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from fedlearn.config import RunConfig, per_run
from fedlearn.core.state import layout_of
from fedlearn.models.loaded import loaded
from fedlearn.models.slices.slicing import Slices, Slicing
from strategies import RoundStrategy, load_strategy


class SlicesOfRun(Slices):
    """The slices of the clients of a run."""

    ratios: NDArray[Any]  # by partition
    effort_of: Callable[[float], float]  # called with a ratio: multiplications relative to those of the whole module

    def ratio_of(self, partition: int) -> float:
        """Return the ratio of a client."""
        return float(self.ratios[partition])

    def by_ratio(self, nodes: Sequence[int]) -> list[list[int]]:
        """Return clients, by partition, in lists of one ratio each, the largest first."""
        found = sorted(set(map(self.ratio_of, nodes)), reverse=True)
        return [[node for node in nodes if self.ratio_of(node) == ratio] for ratio in found]


def slicing_of(strategy: RoundStrategy[Any]) -> Slicing | None:
    """Return how a strategy slices; None if it gives each client the whole state."""
    found = getattr(strategy, "slicing", None)
    return found if isinstance(found, Slicing) else None


@per_run
def slices_of(config: RunConfig) -> SlicesOfRun | None:
    """Return the slices of a run; None if each client has the whole state."""
    slicing = slicing_of(load_strategy(config.strategy))
    if slicing is None:
        return None
    from fedlearn.models.slices.tracing import sliced_module

    dataset, model = loaded(config)
    module = sliced_module(model, config.model.name, slicing.rule)  # type: ignore[arg-type]
    slices = SlicesOfRun(slicing.keep, module.axes, layout_of(model.initial_state(seed=config.seed)))
    slices.ratios = slicing.by_client(config, dataset)
    slices.effort_of = lru_cache(lambda ratio: module.effort(slicing, ratio))
    return slices
