"""Warm start (``model.initial``): the state before round 1 is one that was made before, by another run or elsewhere.

The server alone reads the file, when a run begins: no node opens a path that a server names, and a resume does not need
the file any more. Its SHA-256 is a setting of the run (``model.initial_sha256``); for the final model of another run it
is the ``model_sha256`` in that run's summary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedlearn.config.tables.learning_settings import ModelSettings
from fedlearn.core.errors import SettingError, said
from fedlearn.core.state import Array, State, digest_of, plain_names
from fedlearn.core.state_files import frozen_of

OF_A_RUN, FROZEN = "model.safetensors", "frozen.safetensors"
TORCH = (".pt", ".pth", ".bin")  # what torch.save makes; only tensors are read of them
MOST_BYTES = 1 << 33


def found_initial(settings: ModelSettings) -> ModelSettings:
    """Return the settings with the path and the SHA-256 of the file that they name; a SHA-256 that is there stays.

    Raises
    ------
    SettingError
        If there is no such file.
    """
    if not settings.initial or settings.initial_sha256:
        return settings
    path = Path(settings.initial).expanduser().absolute()
    path = path / OF_A_RUN if path.is_dir() else path
    digest = hashlib.sha256(_content(path)).hexdigest()
    return settings.model_copy(update={"initial": str(path), "initial_sha256": digest})


def initial_from(settings: ModelSettings, first: State, beside: Mapping[str, Array]) -> State:
    """Return the state in the file that the settings name.

    Parameters
    ----------
    first
        The state that the model itself begins with: names, shapes and dtypes, which the file must have, too.
    beside
        Arrays of the model that are no part of the state: further names of parameters, and what is never sent. Where
        the file has them, they must be what every process of the run makes of them.

    Raises
    ------
    SettingError
        In one line, with the name of the first parameter that does not match.
    """
    path = Path(settings.initial)
    content = _content(path)
    if settings.initial_sha256 not in ("", hashlib.sha256(content).hexdigest()):
        raise _wrong(path, "it holds another model now than when its SHA-256 was taken: leave out model.initial_sha256")
    found = plain_names({**_arrays(path, content), **_stored_apart(path, content)})
    for name, array in first.items():
        if name not in found:
            raise _wrong(path, f"it has no {name}, which the model has{_hint(path)}")
        if found[name].shape != array.shape:
            shapes = f"{found[name].shape} there and {array.shape} in the model"
            raise _wrong(path, f"{name} has shape {shapes}{_hint(path)}")
        if found[name].dtype != array.dtype:
            raise _wrong(path, f"{name} is {found[name].dtype} there and {array.dtype} in the model{_hint(path)}")
        if not np.isfinite(found[name]).all():
            raise _wrong(path, f"{name} holds NaN or infinity: take the model of another round")
    for name, array in found.items():
        if name not in first and name not in beside:
            raise _wrong(path, f"it has {name}, which the model has not{_hint(path)}")
        if name not in first and not np.array_equal(array, beside[name]):
            raise _wrong(
                path,
                f"{name} is never sent, and has other numbers there than every client makes of it: from Python give "
                "the module itself, as fedlearn.run(model=run.model())",
            )
    return {name: np.array(found[name]) for name in first}


def _arrays(path: Path, content: bytes) -> dict[str, Array]:
    try:
        if path.suffix in TORCH:
            return _of_torch(content)
        from safetensors.numpy import load

        arrays: dict[str, Array] = load(content)
        return arrays
    except Exception as error:  # of a file that may be anything
        raise _wrong(path, f"it holds no model: {said(error)}; name a run, a .safetensors or a .pt file") from None


def _stored_apart(path: Path, content: bytes) -> dict[str, Array]:
    """Return the large frozen arrays that a run has stored once, in a file of their own."""
    try:
        digest = "" if path.suffix in TORCH else frozen_of(content)
    except (ValueError, AttributeError, RecursionError) as error:
        raise _wrong(path, f"its head is not what a run writes: {said(error)}") from None
    if not digest:
        return {}
    folder = next((each for each in path.parents[:2] if (each / FROZEN).exists()), path.parent)  # or of RUN/models
    arrays = _arrays(folder / FROZEN, _content(folder / FROZEN))
    if digest_of(arrays) != digest:
        raise _wrong(folder / FROZEN, f"its arrays are not those that {path.name} was trained with")
    return arrays


def _of_torch(content: bytes) -> dict[str, Array]:
    import io

    import torch

    loaded: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    tensors = loaded.get("state_dict", loaded)
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def _content(path: Path) -> bytes:
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise _wrong(path, "there is no such file: name a run in which a round was committed, or a file of a model")
        return path.read_bytes()
    except OSError as error:
        raise _wrong(path, f"it cannot be read: {error.strerror}") from None


def _hint(path: Path) -> str:
    settings = path.parent / "settings.toml"
    of_run = f" (--config {settings} has those of that run)" if settings.exists() else ""
    return f": take the data and the model that the file is of{of_run}"


def _wrong(path: Path, why: str) -> SettingError:
    return SettingError("model.initial", str(path), why)
