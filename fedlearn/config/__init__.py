"""Settings: their schema, and the three doors through which they come in."""

from fedlearn.config.load import config_from, flat_from_assignments, flat_from_file, from_flower, to_flower
from fedlearn.config.per_run import per_run
from fedlearn.config.schema import RunConfig

__all__ = [
    "RunConfig",
    "config_from",
    "flat_from_assignments",
    "flat_from_file",
    "from_flower",
    "per_run",
    "to_flower",
]
