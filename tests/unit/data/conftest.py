"""A cache of its own for every test, no network, and small CIFAR-10 files."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FEDLEARN_CACHE", str(folder))
    monkeypatch.delenv("FEDLEARN_DATA", raising=False)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no network in unit tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


class CifarFiles:
    """Writes Parquet files as those of CIFAR-10."""

    TRAIN = (3, 0, 9, 9, 1, 2, 5)
    TEST = (7, 8, 4)

    @staticmethod
    def images(labels) -> np.ndarray:
        """Return noise, (n, 32, 32, 3), the same for the same labels."""
        rng = np.random.default_rng(abs(sum(labels)))
        return rng.integers(0, 256, size=(len(labels), 32, 32, 3), dtype=np.uint8)

    @staticmethod
    def png(pixels: np.ndarray) -> bytes:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, format="PNG")
        return file.getvalue()

    def write(self, path: Path, labels, images: list[bytes | None] | None = None) -> None:
        if images is None:
            images = [self.png(image) for image in self.images(labels)]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        rows = pa.array([{"bytes": data, "path": None} for data in images], kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"img": rows, "label": pa.array(labels, pa.int64())}), path)


@pytest.fixture
def files() -> CifarFiles:
    return CifarFiles()


@pytest.fixture
def data_dir(tmp_path, files) -> Path:
    """A data folder with a CIFAR-10 of seven and three images."""
    folder = tmp_path / "data"
    files.write(folder / "cifar10" / "train.parquet", files.TRAIN)
    files.write(folder / "cifar10" / "test.parquet", files.TEST)
    return folder
