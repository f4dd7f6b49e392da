"""Training of the server itself, for strategies that compare nodes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.plugins.tables import CLIENT_ROOT
from server.feature import Feature
from server.run import ServerRun
from strategies.base import RoundStrategy, Turn


class RootTraining(Feature):
    """Trains on the server's root examples, for a strategy that asks for it."""

    run: ServerRun

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the strategy wants root examples."""
        return bool(strategy.root_examples)

    def turn(self, turn: Turn[Any]) -> Turn[Any]:
        """Return the turn with what training on the root examples makes of the state."""
        asked = (turn.at.round_number, self.strategy.root_examples)
        (root,) = self.run.exchange.compute(CLIENT_ROOT, turn.state, [asked])
        return replace(turn, root=root)
