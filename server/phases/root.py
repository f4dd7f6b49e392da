"""Training of the server itself, for strategies that compare nodes with it."""

from __future__ import annotations

from fedlearn.plugins import CLIENT_ROOT
from fedlearn.words.cohort import At
from fedlearn.words.state import State
from server.run import ServerRun


def root_of(run: ServerRun, at: At) -> State:
    """Return what training on the server's root examples makes of the state; empty if the strategy wants none."""
    if not (count := run.strategy.root_examples):
        return {}
    (made,) = run.exchange.compute(CLIENT_ROOT, run.state, [(at.round_number, count)])
    root: State = made
    return root
