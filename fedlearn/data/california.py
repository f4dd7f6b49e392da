"""California Housing: 20,640 census blocks of 1990, 8 features, the median house value in dollars.

California is looked for in the data folder (the setting ``data.dir``, else the environment variable FEDLEARN_DATA) as
``california_housing.parquet``, and is otherwise downloaded by scikit-learn, which checks its SHA-256. scikit-learn
divides rooms, bedrooms and population by the households of a block; here they are totals again, as published.

Bounds are those of the census variables, rounded outwards: a person who knows California and the census of 1990 could
have declared them without the data. Counts of a block have heavy tails.

Source: Pace and Barry 1997, "Sparse spatial autoregressions", Statistics and Probability Letters 33.
"""

from __future__ import annotations

import warnings
from http.client import HTTPException

import numpy as np

from fedlearn.cache.trusted import cache_folder
from fedlearn.core.errors import DataNotFound
from fedlearn.data.column_files import Columns, read_columns
from fedlearn.data.data_folder import NETWORK_TIMEOUT, check_download, data_folder, identity, one_line, socket_timeout
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.encoded_tables import table_dataset
from fedlearn.data.staging import aside

FILE = "california_housing.parquet"
SCHEMA = TableSchema(
    target="median_house_value",
    bounds={
        "longitude": (-124.5, -114.0),
        "latitude": (32.5, 42.0),
        "housing_median_age": (0.0, 52.0),  # the census stops at 52
        "total_rooms": (1.0, 40_000.0, "log"),
        "total_bedrooms": (1.0, 7_000.0, "log"),
        "population": (1.0, 40_000.0, "log"),
        "households": (1.0, 7_000.0, "log"),
        "median_income": (0.0, 15.0),  # in 10,000 dollars; the census stops at 15
    },
    target_bounds=(14_999.0, 500_001.0),  # dollars; the census's codes for "below 15,000" and "above 500,000"
)


def load(data_dir: str) -> Dataset:
    """Return California Housing from the data folder, the cache or the network, in this order.

    Raises
    ------
    DataNotFound
        If it is in none of them.
    """
    folder, looked_at = data_folder(data_dir, wanted=f"{FILE} is")
    path = folder / FILE if folder is not None else None
    if path is not None and path.is_file():
        found = path
        return table_dataset(
            "california", SCHEMA, identity(found), lambda: read_columns(found, SCHEMA), is_published=True
        )
    return table_dataset("california", SCHEMA, "scikit-learn", lambda: _download(looked_at), is_published=True)


def _download(looked_at: str) -> Columns:
    from sklearn.datasets import fetch_california_housing

    try:
        check_download()
        with (
            aside(".download-", cache_folder(), "california") as root,
            socket_timeout(NETWORK_TIMEOUT),
            warnings.catch_warnings(),  # scikit-learn warns that it tries again
        ):
            warnings.simplefilter("ignore")
            fetched = fetch_california_housing(data_home=root, n_retries=1, delay=0.1)
    except (OSError, HTTPException) as error:
        raise DataNotFound(
            f"California Housing was not found: {looked_at}, and scikit-learn's download failed ({one_line(error)}). "
            f"Put {FILE} into a folder and name that folder by data.dir (--data-dir) or FEDLEARN_DATA"
        ) from error
    income, age, rooms, bedrooms, population, occupation, latitude, longitude = fetched.data.T
    households = np.rint(population / occupation)
    values = {
        "longitude": longitude,
        "latitude": latitude,
        "housing_median_age": age,
        "total_rooms": np.rint(rooms * households),
        "total_bedrooms": np.rint(bedrooms * households),
        "population": population,
        "households": households,
        "median_income": income,
        "median_house_value": fetched.target * 100_000,
    }
    return {name: np.asarray(column, np.float64) for name, column in values.items()}
