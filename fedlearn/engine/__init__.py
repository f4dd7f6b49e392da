"""How a run is executed; never what comes out of it."""

from fedlearn.plugging.registry import Registry

ENGINES = Registry(
    "engine.name",
    {
        "embedded": "fedlearn.engine.embedded:run",
        "inline": "fedlearn.engine.inline:run",
        "ray": "fedlearn.engine.ray_runtime:run",
    },
    asks=("__call__",),
)
