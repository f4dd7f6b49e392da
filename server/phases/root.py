"""Training of the server itself, for strategies that compare nodes with it."""

from __future__ import annotations

from fedlearn.core.cohort import At
from fedlearn.core.state import State
from fedlearn.plugins.tables import CLIENT_ROOT
from server.run import ServerRun


def root_of(run: ServerRun, at: At) -> State:
    """Return what training on the server's root examples makes of the state; empty if the strategy wants none."""
    if not (count := run.strategy.root_examples):
        return {}
    (made,) = run.exchange.compute(CLIENT_ROOT, run.state, [(at.round_number, count)])
    root: State = made
    return root
