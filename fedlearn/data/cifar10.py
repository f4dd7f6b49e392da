"""CIFAR-10: 50,000 + 10,000 color images of 32 x 32 pixels in 10 classes.

It is looked for in the data folder (the setting ``data.dir``, else the environment variable
FEDLEARN_DATA) as

- ``cifar10/train.parquet`` and ``cifar10/test.parquet``, as on the Hugging Face Hub
  (``uoft-cs/cifar10``): columns ``img`` (struct with encoded ``bytes``) and ``label`` (0 to 9);
- ``cifar-10-batches-py``, there or in ``cifar10/``: pickles, hence read only by torchvision, which
  checks their MD5;

and is otherwise downloaded by torchvision, which checks the MD5 of the archive. From any of these
sources, images are decoded once into the cache folder (180 MB); later runs need neither Pillow nor
torchvision.

Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images".
"""

from __future__ import annotations

import io
import logging
import tarfile
import time
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.cache.trusted import cache_folder
from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.cache import cached
from fedlearn.data.cache import load as load_entry
from fedlearn.data.data_folder import NETWORK_TIMEOUT, check_download, data_folder, identity, one_line, socket_timeout
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.staging import aside

log = logging.getLogger(__name__)

NUM_CLASSES = 10
SIDE = 32  # pixels
MEAN = (0.4914, 0.4822, 0.4465)  # of the original training images; the usual values
STD = (0.2470, 0.2435, 0.2616)
SPEC = DataSpec("cifar10", (SIDE, SIDE, 3), "uint8", classes=NUM_CLASSES, mean=MEAN, std=STD)
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE_MD5 = "c58f30108f718f92721af3b95e74349a"  # as in torchvision.datasets.CIFAR10.tgz_md5
BATCHES = "cifar-10-batches-py"
TO_GET_IT = (
    "To get it, put cifar10/train.parquet and cifar10/test.parquet "
    f"(Hugging Face Hub: uoft-cs/cifar10) or the folder {BATCHES} into a folder, "
    "and name that folder by data.dir (--data-dir) or FEDLEARN_DATA"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A place where CIFAR-10 was found."""

    key: str  # paths, sizes and times of files, or the archive's MD5: known before reading
    read: Callable[[], Arrays]  # decodes both splits


def load(data_dir: str) -> Dataset:
    """Return CIFAR-10 from the data folder, the cache or the network, in this order.

    Parameters
    ----------
    data_dir
        The setting ``data.dir``; empty means FEDLEARN_DATA.

    Raises
    ------
    DataNotFound
        If CIFAR-10 is not there, and cannot be downloaded.
    UsageError
        If CIFAR-10 is there, but cannot be read.
    """
    folder, looked_at = data_folder(data_dir, wanted=f"cifar10/train.parquet and {BATCHES} are")
    source = _find(folder) if folder else None
    if source is None:
        source = _downloadable(looked_at)
    entry = cached("cifar10", source.key, lambda: _decode(source))
    return Dataset(
        name="cifar10",
        train=Examples(entry.arrays["train_images"], entry.arrays["train_labels"]),
        test=Examples(entry.arrays["test_images"], entry.arrays["test_labels"]),
        num_classes=NUM_CLASSES,
        mean=MEAN,
        std=STD,
        fingerprint=entry.content,
    )


def _find(folder: Path) -> Source | None:
    train, test = (folder / "cifar10" / f"{split}.parquet" for split in ("train", "test"))
    if train.exists() or test.exists():
        for path, other in ((train, test), (test, train)):
            if not path.is_file():
                raise UsageError(f"{path} is missing, though {other.name} is there")
        return Source(
            key=identity(train, test),
            read=lambda: _read_parquet(train, "train") | _read_parquet(test, "test"),
        )
    for root in (folder, folder / "cifar10"):
        if (root / BATCHES).is_dir():
            files = sorted(path for path in (root / BATCHES).iterdir() if path.is_file())
            return Source(key=identity(*files), read=partial(_read_batches, root))
    return None


def _decode(source: Source) -> Arrays:
    started = time.monotonic()
    arrays = source.read()
    sizes = (len(arrays["train_labels"]), len(arrays["test_labels"]))
    seconds = time.monotonic() - started
    log.info("dataset=cifar10 decoded train=%d test=%d seconds=%.1f", *sizes, seconds)
    return arrays


# Parquet files


def _read_parquet(path: Path, split: str) -> dict[str, NDArray[Any]]:
    """Return the decoded images and labels of one split; errors name the file."""
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            images = np.empty((file.metadata.num_rows, SIDE, SIDE, 3), dtype=np.uint8)
            labels = np.empty(len(images), dtype=np.int64)
            row = 0
            for batch in file.iter_batches(batch_size=5_000, columns=["img", "label"]):
                rows = slice(row, row + len(batch))
                labels[rows] = _labels_of(path, batch.column("label"))
                for encoded in batch.column("img").field("bytes").to_pylist():
                    images[row] = _image(path, row, encoded)
                    row += 1
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a readable Parquet file: {one_line(error)}") from error
    if row == 0 or row != len(images):
        raise UsageError(f"{path} holds {row} of {len(images)} examples")
    return {f"{split}_images": images, f"{split}_labels": labels}


def _check_columns(path: Path, schema: Any) -> None:
    import pyarrow.types as types  # type: ignore[import-untyped, unused-ignore]

    names = schema.names
    image = schema.field("img").type if "img" in names else None
    has_image = (
        image is not None
        and types.is_struct(image)
        and image.get_field_index("bytes") >= 0
        and (types.is_binary(kind := image.field("bytes").type) or types.is_large_binary(kind))
    )
    if not has_image or "label" not in names or not types.is_integer(schema.field("label").type):
        found = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise UsageError(
            f"{path} must have the columns img (struct with bytes) and label (integer), "
            f"as uoft-cs/cifar10 on the Hugging Face Hub; it has {found or 'none'}"
        )


def _labels_of(path: Path, column: Any) -> NDArray[np.int64]:
    if column.null_count:
        raise UsageError(f"{path}: {column.null_count} labels are missing")
    labels: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    wrong = labels[(labels < 0) | (labels >= NUM_CLASSES)]
    if wrong.size:
        raise UsageError(f"{path}: label {wrong[0]} is not one of 0 to {NUM_CLASSES - 1}")
    return labels


def _image(path: Path, row: int, encoded: bytes | None) -> NDArray[np.uint8]:
    """Return one image, (32, 32, 3). Measured: two threads are no faster than this one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(encoded or b"")) as image:
            if image.size != (SIDE, SIDE):
                raise ValueError(f"its size is {image.size}, not {(SIDE, SIDE)}")
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError) as error:  # SyntaxError: Pillow on broken PNG
        raise UsageError(f"{path}: image {row} cannot be read: {one_line(error)}") from error


# torchvision's folder of pickles, and its download


def _read_batches(root: Path) -> dict[str, NDArray[Any]]:
    """Return both splits of ``root/cifar-10-batches-py``, whose MD5 sums torchvision checks."""
    from torchvision.datasets import CIFAR10  # type: ignore[import-untyped, unused-ignore]

    arrays = {}
    for split in ("train", "test"):
        try:
            with warnings.catch_warnings():  # the pickles are of NumPy 1, which NumPy 2 warns of
                warnings.simplefilter("ignore")
                part = CIFAR10(str(root), train=split == "train", download=False)
        except RuntimeError as error:
            raise UsageError(f"{root / BATCHES} is incomplete or damaged (MD5 check)") from error
        arrays[f"{split}_images"] = np.ascontiguousarray(part.data, dtype=np.uint8)
        arrays[f"{split}_labels"] = np.asarray(part.targets, dtype=np.int64)
    return arrays


def _downloadable(looked_at: str) -> Source:
    """Return the source of the downloaded archive; it is decoded already or its host answers."""
    source = Source(key=f"torchvision {ARCHIVE_MD5}", read=lambda: _download(looked_at))
    if load_entry("cifar10", source.key) is None:
        # Asked before torchvision is imported: a run without network fails in a moment, not in 6 s.
        request = urllib.request.Request(URL, method="HEAD")
        try:
            check_download()
            with urllib.request.urlopen(request, timeout=NETWORK_TIMEOUT):
                pass
        except (OSError, HTTPException) as error:
            raise _not_found(looked_at, error) from error
    return source


def _download(looked_at: str) -> Arrays:
    """Return both splits; the archive is deleted, since the cache keeps its images."""
    from torchvision.datasets import CIFAR10  # type: ignore[import-untyped, unused-ignore]

    log.info("dataset=cifar10 downloading=%s", URL)
    try:
        with aside(".download-", cache_folder(), "cifar10") as root:
            with socket_timeout(NETWORK_TIMEOUT), redirect_stdout(io.StringIO()):
                CIFAR10(str(root), download=True)
            return _read_batches(root)
    except (OSError, HTTPException, RuntimeError, tarfile.TarError) as error:
        raise _not_found(looked_at, error) from error


def _not_found(looked_at: str, error: Exception) -> DataNotFound:
    reason = one_line(error)
    return DataNotFound(
        f"CIFAR-10 was not found: {looked_at}, and the download from {URL} failed ({reason}). {TO_GET_IT}"
    )
