"""Count what a run has sent, both ways: bytes, bits for each parameter of a message, seconds on the nodes' devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedlearn.core.metric import VIRTUAL_SECONDS
from fedlearn.report.number_rows import finite
from fedlearn.report.numbers import bits, bits_spread, seconds, seconds_spread, size, size_spread
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column

BITS = 8  # in a byte


def bytes_total(run: StoredRun) -> float | None:
    """Return the bytes of instructions and reports together; None of a baseline, where nothing would be sent."""
    up, down = run.sent("bytes_up"), run.sent("bytes_down")
    return None if up is None or down is None else up + down


def bits_up(run: StoredRun) -> float | None:
    """Return the bits of a report for each parameter of the model; None where no report came, or the state grows."""
    return _bits(run, run.sent("bytes_up"), run.total("uploads"))


def bits_down(run: StoredRun) -> float | None:
    """Return the bits sent to a node in a round for each parameter of the model.

    Messages of abandoned attempts and evaluations on nodes count, nodes of the committed attempts divide: so the bits
    are what a node's part in a round has cost. None as of `bits_up`.
    """
    return _bits(run, run.sent("bytes_down"), run.total("cohort"))


def _bits(run: StoredRun, sent: float | None, messages: float) -> float | None:
    parameters = finite(run.log.view.about.get("parameters", run.summary.get("parameters")))
    return BITS * sent / (messages * parameters) if sent and messages and parameters and parameters > 0 else None


def seconds_on_devices(run: StoredRun) -> float | None:
    """Return the seconds that the run took on the devices of its nodes; None of a run without devices."""
    return run.latest(VIRTUAL_SECONDS.name)


TOTAL = Column("bytes_total", "both ways", size, spread_form=size_spread), bytes_total
FURTHER: Sequence[tuple[Column, Callable[[StoredRun], float | None]]] = (
    (Column("bits_up", "bits up", bits, spread_form=bits_spread), bits_up),
    (Column("bits_down", "bits down", bits, spread_form=bits_spread), bits_down),
    (Column(VIRTUAL_SECONDS.name, "on devices", seconds, spread_form=seconds_spread), seconds_on_devices),
)
"""Columns of tables of runs, each with its function of a run; one that no run has a value for is left out."""


def measured_in(runs: Sequence[StoredRun]) -> list[tuple[Column, Callable[[StoredRun], float | None]]]:
    """Return the columns of what was sent, with their functions of a run: the total, and those that any run has."""
    further = [(column, measure) for column, measure in FURTHER if any(measure(run) is not None for run in runs)]
    return [TOTAL, *further]
