"""A run that protects nodes (``privacy.protects = "nodes"``): its rules, and the noise that the server adds to sums.

Where nodes add noise themselves the server adds none, and only the rules and what the results say are left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from fedlearn import wire
from fedlearn.aggregation import STATE
from fedlearn.config import RunConfig
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Array, State
from fedlearn.runs.spending import noise_of_nodes
from server.feature import Added, Feature, Instructions, Measure, Measures, NewState
from server.features.privacy.node_privacy import OURS, NodePrivacy, check_arrays, columns_of
from server.features.privacy.privacy_rules import RULES
from server.features.privacy.round_clip import ASKED
from server.run import ServerRun
from strategies.base import RoundStrategy, Turn
from strategies.masked_mean import MaskedSum

BATCHES = "training.clip_norm clips batches, and bounds no client: privacy.clip does"


class ProtectedNodes(Feature):
    """Noise on the sums of nodes, where the server adds it."""

    run: ServerRun
    rules = RULES
    stores = OURS

    def __init__(self) -> None:
        self._noise: NodePrivacy | None = None
        self._noisy: MaskedSum | None = None  # of the attempt that was added up last

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether nodes are protected."""
        return config.protects_nodes

    def metrics(self, of_model: Metrics) -> Added:
        """Return the columns of the noise, and whether a change was within the clipping norm, if that follows."""
        return Added(columns_of(self.config), parcels=ASKED if self.config.adapts_clip else {})

    def begin(self, state: State, memory: Mapping[str, Array]) -> None:
        """Refuse a state that no noise protects, and rounds that cost more than the budget; go on with the noise."""
        self._noise = NodePrivacy.of(self.config, memory)
        check_arrays(self.config, self.strategy, state)

    def notices(self) -> Sequence[str]:
        """Return a note on a clipping norm that is likely not meant."""
        return [BATCHES] if self.config.training.clip_norm else []

    def instruct(self, instructions: Instructions) -> None:
        """Tell nodes the clipping norm of the round, if it changes."""
        if self._noise is not None and (told := self._noise.told(instructions.at.round_number)):
            for message in instructions.messages:
                wire.tell(message.content, told)

    def turn(self, turn: Turn[Any]) -> Turn[Any]:
        """Return the turn with the noisy sum, and nothing of any single node."""
        if self._noise is None:
            return turn
        noise, private, number = self.run.draws.noise(turn.at, of="sums of nodes"), self._noise, turn.at.round_number

        def release(total: Any) -> MaskedSum:
            sums = cast(Mapping[str, MaskedSum], {STATE: total, **turn.parcels})
            self._noisy = private.released(sums, noise, number)
            return self._noisy

        is_clipped = self.strategy.clips
        total = self.strategy.released(turn.total, self.config, release) if is_clipped else release(turn.total)
        return replace(turn, total=total, parcels={}, members=(), reports=())

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures with what the round has spent, and how its sum stands out of the noise."""
        found = measure(new)
        if self._noise is None or self._noisy is None or new.once:
            return found
        return replace(found, columns={**found.columns, **self._noise.measured(self._noisy, new.at.round_number)})

    def memory(self, versions: Collection[int]) -> Mapping[str, Array]:
        """Return the noise that the run began with, and what later noise depends on."""
        return {} if self._noise is None else self._noise.memory()

    def summary(self) -> Mapping[str, object]:
        """Return the promise of the run, and what it has spent."""
        if self._noise is None:
            return noise_of_nodes(self.config)
        return self._noise.summary(len(self.run.store.history.rounds), is_seeded=self.run.draws.are_seeded)
