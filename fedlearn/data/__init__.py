"""Where examples come from, and how they are spread over the nodes.

Importing this package is cheap: a data set is decoded once into the cache folder (`cache.py`) and mapped into memory by
every process. The libraries `datasets` and `flwr_datasets` are imported only for partitions that are not in the cache.
"""

from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.data.loading import DATASETS, load_dataset
from fedlearn.data.partitioning import partition_table
from fedlearn.data.rows_of_nodes import PartitionTable
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.from_any import from_any
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.sources.leaf import from_leaf
from fedlearn.data.sources.libraries import from_hf, from_torch
from fedlearn.data.sources.mixed import from_mixed
from fedlearn.data.sources.named_columns import from_frame, from_table
from fedlearn.data.sources.pfllib import from_pfllib
from fedlearn.data.sources.windows import from_windows

__all__ = [
    "DATASETS",
    "DataSpec",
    "Dataset",
    "Examples",
    "PartitionTable",
    "TableSchema",
    "from_any",
    "from_arrays",
    "from_folder",
    "from_frame",
    "from_hf",
    "from_leaf",
    "from_mixed",
    "from_pfllib",
    "from_table",
    "from_torch",
    "from_windows",
    "load_dataset",
    "partition_table",
]
