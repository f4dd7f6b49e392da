"""Doors of data, each a function of one content: files, arrays, frames and data sets of libraries.

A content is what a user means: inputs, a target for each, and maybe the names of all classes. A door writes or wraps it
in its own form and reads it back. `HOLES` says which door cannot carry which kind of content, and why.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image
from torch.utils.data import Dataset as TorchDataset

from fedlearn.data import from_any, from_arrays, from_folder, from_frame, from_hf, from_leaf, from_table, from_torch
from fedlearn.data.dataset import Dataset
from fedlearn.data.encoded_tables import load_schema_file
from fedlearn.data.sources.npz import from_npz


@dataclass(frozen=True)
class Content:
    """Inputs X: an array (rows, ...) or a list of Pillow images; y: a target for each; `classes`: their names."""

    X: Any
    y: Any
    classes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ("a", "b", "c")
    asked: tuple[str, ...] = ()  # names of the columns as the reader is asked for them
    pixels: Any = None  # of pictures: the arrays that they are read as
    refused: str = ""  # pattern of the line that refuses it by every door

    @property
    def is_rows(self) -> bool:
        """Whether the inputs are rows of a table."""
        return not isinstance(self.X, list) and self.X.ndim == 2 and self.X.dtype.kind == "f"

    @property
    def kind(self) -> str:
        """Whether the inputs are rows, pictures or lists."""
        return "rows" if self.is_rows else "pictures" if isinstance(self.X, list) else "lists"

    def frame(self) -> pd.DataFrame:
        """Return the content as a frame: columns of numbers, or one column of pictures or lists."""
        if self.is_rows:
            columns = {name: self.X[:, k] for k, name in enumerate(self.columns)}
        elif isinstance(self.X, list):
            columns = {"x": [encoded(picture) for picture in self.X]}
        else:
            columns = {"x": pa.array(self.X.tolist(), _nested(self.X)).to_pandas()}
        return pd.DataFrame({**columns, "k": list(self.y)})

    def options(self) -> dict[str, Any]:
        """Return what a reader of tables is told."""
        named = {} if self.classes is None else {"classes": self.classes}
        asked = {"inputs": self.asked} if self.asked else {}
        return {"target": "k", **named, **asked}


def _nested(X: Any) -> Any:
    kind = pa.from_numpy_dtype(X.dtype)
    for _ in X.shape[1:]:
        kind = pa.list_(kind)
    return kind


class Pairs(TorchDataset[Any]):
    """A data set of torch."""

    def __init__(self, content: Content) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content.y)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        X = self.content.X[place]
        return opened(X) if self.content.kind == "pictures" else X, self.content.y[place]


def opened(picture: Any) -> Any:
    """Return a picture as Pillow opens its file."""
    return Image.open(io.BytesIO(encoded(picture)))


def encoded(picture: Any) -> bytes:
    """Return the bytes of a file of a picture."""
    buffer = io.BytesIO()
    frames = picture.info.get("frames", [])
    more = {"save_all": True, "append_images": frames} if frames else {}
    picture.save(buffer, "TIFF" if frames else "PNG", exif=picture.getexif(), **more)
    return buffer.getvalue()


# --- files ------------------------------------------------------------------------------------------------------------


def separated(path: Path, content: Content, between: str) -> Path:
    content.frame().to_csv(path, index=False, sep=between)
    return path


def csv(content: Content, folder: Path) -> Dataset:
    return from_table(separated(folder / "a.csv", content, ","), **content.options())


def tsv(content: Content, folder: Path) -> Dataset:
    return from_table(separated(folder / "a.tsv.gz", content, "\t"), **content.options())


def parquet(content: Content, folder: Path) -> Dataset:
    content.frame().to_parquet(folder / "a.parquet")
    return from_table(folder / "a.parquet", **content.options())


def declared(content: Content, folder: Path) -> Dataset:
    separated(folder / "a.csv", content, ",")
    names = content.classes or tuple(sorted({str(label) for label in content.y}))
    is_number = isinstance(content.y[0], float)
    learned = "target_bounds = [-1e6, 1e6]" if is_number else f"classes = {json.dumps(names)}"
    bounds = "\n".join(f"{json.dumps(name)} = [-1e9, 1e9]" for name in content.asked or content.columns)
    text = f'data = "a.csv"\ntarget = "k"\n{learned}\n[bounds]\n{bounds}\n'
    (folder / "a.toml").write_text(text, encoding="utf-8")
    return load_schema_file(folder / "a.toml")


def npz(content: Content, folder: Path) -> Dataset:
    X = np.stack(content.pixels) if content.kind == "pictures" else content.X
    np.savez(folder / "a.npz", X=X, y=np.array(content.y))
    return from_npz(folder / "a.npz", classes=content.classes)


def pictures(content: Content, folder: Path) -> Dataset:
    for number, (picture, label) in enumerate(zip(content.X, content.y, strict=True)):
        (folder / "p" / str(label)).mkdir(parents=True, exist_ok=True)
        (folder / "p" / str(label) / f"{number:03}.png").write_bytes(encoded(picture))
    return from_folder(folder / "p", classes=content.classes)


def leaf(content: Content, folder: Path) -> Dataset:
    user = {"x": content.X.tolist(), "y": list(content.y)}
    (folder / "a.json").write_text(json.dumps({"users": ["u"], "num_samples": [20], "user_data": {"u": user}}))
    return from_leaf(folder / "a.json")


# --- objects ----------------------------------------------------------------------------------------------------------


def arrays(content: Content, folder: Path) -> Dataset:
    X = [opened(picture) for picture in content.X] if content.kind == "pictures" else content.X
    return from_arrays(X, content.y, classes=content.classes)


def frame(content: Content, folder: Path) -> Dataset:
    return from_frame(content.frame(), **content.options())


def arrow(content: Content, folder: Path) -> Dataset:
    return from_frame(pa.Table.from_pandas(content.frame()), **content.options())


def torch(content: Content, folder: Path) -> Dataset:
    return from_torch(Pairs(content), classes=content.classes)


def hub(content: Content, folder: Path) -> Dataset:
    if content.kind == "pictures":
        files = [{"bytes": encoded(picture), "path": None} for picture in content.X]
        kinds = datasets.Features(x=datasets.Image(), k=datasets.Value("string"))
        rows = datasets.Dataset.from_dict({"x": files, "k": content.y}, features=kinds)
    else:
        rows = datasets.Dataset.from_pandas(content.frame(), preserve_index=False)
    inputs = content.asked or (content.columns if content.is_rows else ("x",))
    return from_hf(rows, inputs=list(inputs), target="k", classes=content.classes)


def nodes(content: Content, folder: Path) -> Dataset:
    half = len(content.y) // 2
    if content.is_rows:
        whole = content.frame()
        other = whole[half:].set_axis([*(content.asked or content.columns), "k"], axis=1)
        return from_any({"a": (whole[:half], "k"), "b": (other, "k")})
    if isinstance(content.X, list):
        pairs = [*Pairs(content)]
        return from_any({"a": pairs[:half], "b": pairs[half:]})
    return from_any({"a": (content.X[:half], content.y[:half]), "b": (content.X[half:], content.y[half:])})


DOORS: dict[str, Callable[[Content, Path], Dataset]] = {
    door.__name__: door for door in (
        csv, tsv, parquet, declared, npz, pictures, leaf, arrays, frame, arrow, torch, hub, nodes,
    )
}  # fmt: skip
