"""How large a report may be beside those of its cohort: the length of its change, and its share of the weight.

Reports are added up as they come, so no report can be compared with those that come after it. It is compared with
what was typical of the last committed round (`Typical`), or of those before where strategies keep something at the
nodes (`typical_after`). Where nothing is known yet, the server looks at the whole cohort afterwards
(`server.committing`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedlearn.config.tables.reports import GateSettings
from fedlearn.core.cohort import Fate, NodeReport, Typical
from fedlearn.core.state import Array

FEWEST = 3  # reports; of two, neither is the unusual one
FEWEST_SHARING = 5  # reports; in a smaller cohort an honest node may well hold nearly all examples

LARGER = 10  # times the usual change, for a node of as many times the median of examples
RECENT = 20  # reports by which others are judged, where a round has fewer than can be compared
KEPT = 0.9  # of the usual norm at least, while each node is asked once, where nodes go by what they were asked before


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one report of a cohort.

    Parameters
    ----------
    typical
        What it is compared with.
    cohort
        How many nodes there are in it.
    gate
        Says how far a report may go.
    """

    typical: Typical
    cohort: int
    gate: GateSettings

    def ratio_of(self, norm: float, num_examples: int) -> float:
        """Return how many times as long as is usual a change is; 0 where the usual one is nothing.

        A node with more examples takes more steps. At most it goes further by as much: up to `LARGER` times.
        """
        usual = self.typical.norm * min(max(num_examples / self.typical.num_examples, 1.0), LARGER)
        return norm / usual if usual else 0.0

    def share_of(self, num_examples: int) -> float:
        """Return a node's share of the weight, if each of the others has the median."""
        return num_examples / (num_examples + (self.cohort - 1) * self.typical.num_examples)

    def why_not(self, norm: float, num_examples: int) -> str:
        """Return why a report goes too far, as a reason of the gate; empty where it does not.

        >>> Limits(Typical(2.0, 100), 10, GateSettings(max_ratio=5)).why_not(30.0, 100)
        'norm-too-large: the change has 15 times the usual L2 norm, allowed are 5 times (gate.max_ratio)'
        """
        gate = self.gate
        if self.cohort >= FEWEST and gate.max_ratio and (ratio := self.ratio_of(norm, num_examples)) > gate.max_ratio:
            allowed = f"allowed are {gate.max_ratio:g} times (gate.max_ratio)"
            return f"norm-too-large: the change has {ratio:.3g} times the usual L2 norm, {allowed}"
        if self.cohort >= FEWEST_SHARING and (share := self.share_of(num_examples)) > gate.max_share:
            allowed = f"allowed is {gate.max_share:g} (gate.max_share)"
            return f"share-too-large: {num_examples} examples would be {share:.4f} of the weight, {allowed}"
        return ""


def typical_after(
    before: Typical | None, reports: Sequence[NodeReport], *, clients: int, goes_by_what_nodes_keep: bool
) -> Typical:
    """Return the medians that the next round's reports are compared with.

    Parameters
    ----------
    before
        The medians that `reports` were compared with.
    clients
        How many nodes there are.
    goes_by_what_nodes_keep
        What a node sends depends on when it was asked last, as with control variates: there changes become smaller from
        round to round, and that of a node that was not asked for long, or never, is as large as they were then.
    """
    typical = Typical.of(reports)
    if before is None or not goes_by_what_nodes_keep:
        return typical
    return typical.faded(before, KEPT ** (len(reports) / clients))


def measured(reports: Sequence[NodeReport]) -> list[NodeReport]:
    """Return the reports that were sound in themselves, whether or not the limits let them in."""
    return [report for report in reports if report.num_examples]


def too_far(reports: Sequence[NodeReport], gate: GateSettings) -> Mapping[int, str]:
    """Return place in the list -> why, of reports that go too far beside these reports themselves.

    Not by position: reports of two cohorts that are joined have positions in common.
    """
    if not reports:
        return {}
    limits = Limits(Typical.of(reports), len(reports), gate)
    found = {place: limits.why_not(report.norm, report.num_examples) for place, report in enumerate(reports)}
    return {place: why for place, why in found.items() if why}


class RecentReports:
    """The last `RECENT` reports that counted, by which others are judged where a round has too few to compare them.

    Parameters
    ----------
    stored
        What `memory` returned before a resume, shape (n_reports, 2); None at first.
    enough
        How many reports a round has.
    """

    def __init__(self, stored: Array | None, *, enough: int) -> None:
        rows = [] if stored is None else stored.tolist()
        self._recent = deque([(norm, int(examples)) for norm, examples in rows], RECENT)
        self._enough = enough

    def typical_after(self, reports: Sequence[NodeReport]) -> Typical | None:
        """Add the reports of a round that count; return what is typical, None where the round itself can tell."""
        counted = [report for report in reports if report.fate is Fate.REPORTED]
        self._recent.extend((report.norm, report.num_examples) for report in counted)
        if not self._enough < FEWEST <= len(self._recent):
            return None
        return Typical.of([NodeReport(0, Fate.REPORTED, examples, norm=norm) for norm, examples in self._recent])

    def memory(self) -> Array:
        """Return norms and numbers of examples, shape (n_reports, 2)."""
        return np.array(self._recent, np.float64).reshape(-1, 2)
