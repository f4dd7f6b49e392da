"""Made tables and made trees, small enough to look at."""

from __future__ import annotations

import numpy as np

from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.data.dataset import Dataset

REGRESSION = TableSchema(
    "y", {"a": (0.0, 1.0), "b": (1.0, 1000.0, "log")}, {"c": ("red", "green", "blue")}, target_bounds=(-2.0, 6.0)
)
CLASSIFICATION = TableSchema(
    "y", {"a": (0.0, 1.0), "b": (1.0, 1000.0, "log")}, {"c": ("red", "green", "blue")}, classes=("no", "maybe", "yes")
)


def examples(number: int, schema: TableSchema, *, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    a, b, c = rng.random(number), 10 ** rng.uniform(0, 3, number), rng.integers(0, 3, number).astype(float)
    features = np.column_stack([a, b, c])
    features[rng.random(features.shape) < 0.1] = np.nan
    if schema.classes:
        return Examples(features, ((a > 0.5).astype(np.int64) + (c == 2)).astype(np.int64))
    return Examples(features, 4 * a + np.log10(b) - c)


def dataset(schema: TableSchema) -> Dataset:
    return Dataset.of_table("made", examples(300, schema), examples(60, schema, seed=1), schema, "made")


def made_trees(rng: np.random.Generator, outputs: int = 1) -> dict[str, np.ndarray]:
    """Return a state of one stump or one leaf, as a node would send it."""
    if rng.random() < 0.3:
        value = rng.random((1, outputs))
        arrays = {"feature": [-1], "threshold": [0.0], "first_child": [-1], "num_children": [0]}
    else:
        value = rng.random((3, outputs))
        arrays = {
            "feature": [int(rng.integers(0, 2)), -1, -1], "threshold": [rng.random(), 0.0, 0.0],
            "first_child": [1, -1, -1], "num_children": [2, 0, 0],
        }  # fmt: skip
    dtypes = {"feature": np.int32, "threshold": np.float64, "first_child": np.int32, "num_children": np.int32}
    columns = {name: np.array(column, dtypes[name]) for name, column in arrays.items()}
    return {"root": np.zeros(1, np.int32), "weight": np.ones(1), **columns, "value": value}
