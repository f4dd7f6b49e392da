"""The 442 diabetes patients that scikit-learn brings along: no network. Target: progression after one year.

Bounds are medical common sense, not read from the patients. With so few rows no private tree is good: this data set is
for tests and first runs.

Source: Efron et al. 2004, "Least angle regression", Annals of Statistics 32.
"""

from __future__ import annotations

import numpy as np

from fedlearn.data.column_files import Columns
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.encoded_tables import table_dataset

SCHEMA = TableSchema(
    target="progression",
    bounds={
        "age": (18.0, 80.0),  # years
        "sex": (1.0, 2.0),
        "bmi": (15.0, 45.0),  # kg / m^2
        "bp": (60.0, 140.0),  # mean arterial pressure, mm Hg
        "s1": (90.0, 310.0),  # total cholesterol, mg / dl
        "s2": (40.0, 250.0),  # low-density lipoproteins, mg / dl
        "s3": (20.0, 100.0),  # high-density lipoproteins, mg / dl
        "s4": (1.0, 10.0),  # total over high-density
        "s5": (3.0, 6.5),  # logarithm of triglycerides
        "s6": (50.0, 130.0),  # blood sugar, mg / dl
    },
    target_bounds=(0.0, 350.0),
)


def load(data_dir: str = "") -> Dataset:
    """Return the patients; `data_dir` is not used, and is there because every data set has it."""
    return table_dataset("diabetes", SCHEMA, "scikit-learn diabetes, not scaled", _read, is_published=True)


def _read() -> Columns:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    columns = dict(zip(bunch.feature_names, bunch.data.T, strict=True))
    return {name: np.asarray(column, np.float64) for name, column in {**columns, "progression": bunch.target}.items()}
