"""The functions for Python users: `fedlearn.run` makes a run, `fedlearn.load` opens one that was made before."""

from fedlearn.api.result import Run, load
from fedlearn.api.running import run

__all__ = ["Run", "load", "run"]
