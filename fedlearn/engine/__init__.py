"""How a run is executed; never what comes out of it."""

from fedlearn.engine.engine_type import Engine
from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry

ENGINES = Registry(
    "engine.name",
    tables.ENGINES,
    asks=("__call__",),
)


def load_engine(name: str) -> Engine:
    """Return the engine of a name; a function from outside is made one."""
    found = ENGINES.load(name)
    return found if isinstance(found, Engine) else Engine(found)


__all__ = ["ENGINES", "Engine", "load_engine"]
