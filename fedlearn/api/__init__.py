"""The functions for Python users: make a run, open one that was made before, keep workers from run to run."""

from fedlearn.api.looking import compare, runs
from fedlearn.api.result import Run, load
from fedlearn.api.rounds_by_hand import by_hand
from fedlearn.api.running import run
from fedlearn.api.shown import partitions
from fedlearn.api.sweeping import sweep
from fedlearn.engine.session import session

__all__ = ["Run", "by_hand", "compare", "load", "partitions", "run", "runs", "session", "sweep"]
