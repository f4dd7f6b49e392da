"""What a strategy draws from random generators that are not ours: seeded where it may be, and said in the result.

Flower's strategies draw from Python's and NumPy's global generators, or bring their own. In a simulation these begin
each call where (seed, round, attempt) puts them, so that the same seed gives the same bytes, also after a resume. In a
deployment only the choice of nodes is seeded: noise from a known seed does not protect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from flwr.serverapp.strategy import Strategy

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import Array
from fedlearn.plugins.generators import generators_in, seeded_globals
from fedlearn.privacy.noise import Noise, secure_noise, seeded_noise
from strategies.base import RoundStrategy

DREW = "drew"  # what the run's checkpoint calls it, beside the strategy's memory


class Draws:
    """Lends the global generators to a strategy, and knows whether it has drawn from them.

    Parameters
    ----------
    is_virtual
        The run is a simulation: its noise is seeded, unless the settings say otherwise.
    """

    def __init__(self, config: RunConfig, *, is_virtual: bool) -> None:
        self._seed = config.seed
        self._strategy = config.strategy.name
        chosen = config.privacy.noise
        self.are_seeded = chosen == "seeded" or (chosen == "auto" and is_virtual)
        self._drew: set[bool] = set()  # seeded, not seeded

    @contextmanager
    def to_choose(self, strategy: Strategy, what: str, at: At) -> Iterator[None]:
        """Lend them to a strategy that chooses nodes: always seeded, as our own choice of a cohort is.

        But not the strategy's own ones where they are not to be: they go on from here when it computes. Where it
        writes to all that it is given, as ours do, nothing is drawn.
        """
        if what == "training" and writes_to_all(strategy):
            yield
            return
        held = generators_in(strategy, into=Strategy) if self.are_seeded else []
        with seeded_globals(self._seed_for(what, at), held):
            yield

    @contextmanager
    def to_compute(self, strategy: Strategy | None, what: str, at: At = At(0, 0)) -> Iterator[None]:  # noqa: B008
        """Lend them to a strategy that computes what is published, or that is being made."""
        held = [] if strategy is None else generators_in(strategy, into=Strategy)
        with seeded_globals(self._seed_for(what, at) if self.are_seeded else None, held) as drew:
            yield
            if drew():
                self._drew.add(self.are_seeded)

    def _seed_for(self, what: str, at: At) -> int:
        return seed_for(self._seed, purpose=f"strategy: {what}", **at._asdict())

    def noise(self, at: At, *, of: str = "the strategy") -> Noise:
        """Return the source of noise for strategies that know of ours, or for something else, of which it is."""
        if not self.are_seeded:
            return secure_noise()
        return seeded_noise(seed_for(self._seed, purpose=f"noise of {of}", **at._asdict()))

    @property
    def notice(self) -> str:
        """The notice for the result; empty if the strategy has drawn no random numbers."""
        if False in self._drew:
            return f"strategy {self._strategy!r} draws random numbers that no seed gives: not reproducible"
        if self._drew:
            return f"random numbers of strategy {self._strategy!r} are seeded: reproducible, protect nobody"
        return ""

    def memory(self) -> dict[str, Array]:
        """Return the arrays of the checkpoint from which a resumed run makes its notice."""
        return {DREW: np.array(sorted(self._drew), np.uint8)} if self._drew else {}

    def remember(self, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Take back what `memory` returned; return the rest, which is the strategy's."""
        rest = dict(memory)
        self._drew.update(bool(each) for each in rest.pop(DREW, ()))
        return rest


def writes_to_all(strategy: Strategy) -> bool:
    """Return whether a strategy's messages are made by our code alone, from the state and for each node alike."""
    hooks = ("configure_train", "parcels", "answers")
    return all(getattr(type(strategy), name, None) is getattr(RoundStrategy, name) for name in hooks)
