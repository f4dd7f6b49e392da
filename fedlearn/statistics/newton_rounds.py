"""What regressions on exact sums have in common: Newton's method over rounds, and categories with few records."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fedlearn.core.state import Array, State
from fedlearn.models.model import Finished
from fedlearn.statistics.analysis import Exact
from fedlearn.statistics.design import Counted, Design, IntArray, Rows
from fedlearn.statistics.newton import Climb
from fedlearn.statistics.remembered import Remembered

SITES = 40  # from which on errors clustered by site hold (Cameron and Miller 2015, section VI: fewer are "few")
FEW_SITES = "errors clustered by site are mostly too small with few sites, and here are {}: take {} or more"
ONE_SITE = "errors that are clustered by site need several sites: leave out model.options.clustered"


class Regression(Exact):
    """Base class of regressions by Newton's method."""

    design: Design
    counted: Counted
    clustered: bool

    def _settle(self, nodes: int, largest_node: int) -> None:
        super()._settle(nodes, largest_node)
        self._climbs: Remembered[Climb] | None = None
        self._last: tuple[Array, Climb] | None = None  # of the state that was asked for last, by its array

    def progress(self, state: State) -> Finished:
        """Return whether Newton's method has come to its end, or that the answer may not be shown."""
        why = self._rows(state).too_few(self.least_count)
        if self.clustered and state["reports"][0] == 1:
            why = ONE_SITE
        return Finished(why, is_failure=True) if why else self._climb(state).ended

    @abstractmethod
    def _after_round(self, climb: Climb, sums: IntArray) -> Climb:
        """Return where Newton's method stands after a round."""

    def _climb(self, state: State) -> Climb:
        if self._climbs is None:
            first = Climb(np.zeros(self.design.size), self.design.names)
            self._climbs = Remembered(first, self._after_round)
        if self._last is None or self._last[0] is not state["sums"]:
            self._last = state["sums"], self._climbs.after(self.rounds(state))
        return self._last[1]

    def _rows(self, state: State) -> Rows:
        return self.counted.read(self.rounds(state)[0][: self.counted.length] / self.cap)

    def _notes(self, rows: Rows, sites: int) -> list[str]:
        """Return the lines of what was left out or moved, of what categories are compared with, and of few sites."""
        few = [FEW_SITES.format(sites, SITES)] if self.clustered and sites < SITES else []
        return [*rows.lines(self.least_count), *self.design.compared(), *few]
