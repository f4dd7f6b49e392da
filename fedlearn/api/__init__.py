"""The functions for Python users: make a run, open one that was made before, keep workers from run to run."""

from fedlearn.api.looking import compare, runs
from fedlearn.api.result import Run, load
from fedlearn.api.running import run
from fedlearn.engine.session import session

__all__ = ["Run", "compare", "load", "run", "runs", "session"]
