"""The gates for reports of nodes that were sent different states."""

from __future__ import annotations

from dataclasses import replace

from fedlearn.core.cohort import At, Typical
from server.gate.gate import ReportGate
from server.phases.reporting import fold_plan
from server.run import ServerRun
from server.schedules.asynchronous.in_flight import Flight, InFlight


class Gates:
    """One gate for each state that nodes in flight work on, by what was typical of reports when it was sent.

    Parameters
    ----------
    cohort
        Among how many reports one is judged.
    """

    def __init__(self, run: ServerRun, *, cohort: int) -> None:
        self._run = run
        self._cohort = cohort
        self._gates: dict[tuple[At, Typical | None], ReportGate] = {}

    def of(self, flight: Flight) -> ReportGate:
        """Return the gate for the report of a node in flight."""
        key = (flight.at, flight.typical)
        if key not in self._gates:
            plan = fold_plan(self._run, flight.at, cohort=self._cohort)
            self._gates[key] = ReportGate(replace(plan, typical=flight.typical))
        return self._gates[key]

    def forget(self, flights: InFlight, at: At) -> None:
        """Forget the gates that neither a node in flight nor attempt `at` needs, when there are many."""
        if len(self._gates) > 2 * len(flights):  # not each time: there may be a thousand
            in_use = {flight.at for flight in flights.everyone} | {at}
            self._gates = {key: gate for key, gate in self._gates.items() if key[0] in in_use}
