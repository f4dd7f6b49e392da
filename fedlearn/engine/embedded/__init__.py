"""The embedded engine: worker processes and shared memory."""

from fedlearn.engine.embedded.engine import run

__all__ = ["run"]
