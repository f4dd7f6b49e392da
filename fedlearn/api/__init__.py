"""The functions for Python users: make a run, open one that was made before, keep workers from run to run."""

from fedlearn.api.result import Run, load
from fedlearn.api.running import run
from fedlearn.engine.session import session

__all__ = ["Run", "load", "run", "session"]
