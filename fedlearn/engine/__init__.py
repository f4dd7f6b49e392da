"""How a run is executed; never what comes out of it."""

from fedlearn import plugins
from fedlearn.plugging.registry import Registry

ENGINES = Registry(
    "engine.name",
    plugins.ENGINES,
    asks=("__call__",),
)
