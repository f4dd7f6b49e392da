"""The run folder: everything a run leaves behind, written so that a kill at any moment loses nothing stored.

```text
runs/NAME/
├── settings.toml             every setting, resolved; --config reads it back
├── environment.json          versions and machine
├── events.jsonl              every transition, one JSON object a line
├── metrics.csv               one row a committed round
├── model.safetensors         the state after the latest round
├── best.safetensors          the state after the best evaluated round
├── checkpoint.json           round, history, and the SHA-256 of the files that belong to it
├── checkpoint/               what else a resume needs: strategy memory, node states
└── summary.json              results, when the run has ended
```

Each file is written aside, synced, and renamed into place. `checkpoint.json` is renamed last: until then the one
before it stands, with the files it names, which are removed only afterwards.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from fedlearn.errors import CheckpointError
from fedlearn.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.runs.history import COLUMNS, History, RoundRecord
from fedlearn.state import Array, State

CHECKPOINT = "checkpoint.json"
FORMAT = 1


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it holds either what it held before or all of `data`, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pack_state(arrays: Mapping[str, Array]) -> bytes:
    """Return named arrays as a safetensors file; the same arrays give the same bytes."""
    return safetensors_save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal: what ``sha256sum FILE`` prints."""
    return hashlib.sha256(data).hexdigest()


class RunStore:
    """The latest stored state of a run and its history.

    Parameters
    ----------
    folder
        The run folder.
    metrics
        What is measured: further columns of the table, and which round is best.
    """

    def __init__(self, folder: Path, metrics: Metrics = NEURAL_CLASSIFIER) -> None:
        self.folder = folder
        self.metrics = metrics
        self.state: State = {}
        self.memory: Mapping[str, Array] = {}
        self.node_states = b""
        self.history = History(metrics=metrics)
        self.model_sha256 = ""
        self.seconds = 0.0
        self._files: dict[str, str] = {}  # file name -> SHA-256, of the checkpoint that stands

    @property
    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return (self.folder / CHECKPOINT).exists()

    def begin(self, state: State) -> None:
        """Store the state before round 1."""
        self._write(state, {}, b"", History(metrics=self.metrics))

    def save(
        self, state: State, memory: Mapping[str, Array], record: RoundRecord, *, node_states: bytes, seconds: float
    ) -> None:
        """Store the state after a committed round.

        Parameters
        ----------
        memory
            What the strategy carries from round to round.
        node_states
            What the nodes keep between rounds, where the engine holds it for them.
        seconds
            How long the run has taken so far, over all its sessions.
        """
        self.seconds = seconds
        self._write(state, memory, node_states, self.history.plus(record))

    def load(self) -> None:
        """Read the stored checkpoint.

        Raises
        ------
        CheckpointError
            If a file is missing or its bytes are not those that were written.
        """
        path = self.folder / CHECKPOINT
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if manifest["format"] != FORMAT:
                raise CheckpointError(f"{path} has format {manifest['format']}, this version reads {FORMAT}")
            history = History(tuple(map(RoundRecord.from_row, manifest["history"])), self.metrics)
            self._files = dict(manifest["files"])
            self.seconds = float(manifest["seconds"])
            self.model_sha256 = self._files[_state_name(len(history.rounds))]
            names = list(manifest["parameters"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} cannot be read back: {type(error).__name__}: {error}") from None
        data = {name: self._read(name) for name in self._files}
        number = len(history.rounds)
        self.history = history
        state = _unpack(data[_state_name(number)])
        if state.keys() != set(names):
            raise CheckpointError(f"{path} names other parameters than {_state_name(number)} holds")
        self.state = {name: state[name] for name in names}
        self.memory = _unpack(data[name]) if (name := _memory_name(number)) in data else {}
        self.node_states = data.get(_nodes_name(number), b"")
        self._publish(data[_state_name(number)])

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}, which {CHECKPOINT} names, cannot be read: {error.strerror}") from None
        if sha256(data) != self._files[name]:
            raise CheckpointError(f"{path} is damaged: its SHA-256 is not the one that {CHECKPOINT} names")
        return data

    def _write(self, state: State, memory: Mapping[str, Array], node_states: bytes, history: History) -> None:
        number = len(history.rounds)
        packed = pack_state(state)
        data = {_state_name(number): packed}
        if memory:
            data[_memory_name(number)] = pack_state(memory)
        if node_states:
            data[_nodes_name(number)] = node_states
        for name, content in data.items():
            write_atomically(self.folder / name, content)
        manifest = {
            "format": FORMAT,
            "files": {name: sha256(content) for name, content in data.items()},
            "parameters": list(state),  # safetensors forgets the model's order, in which codecs lay out what is sent
            "seconds": round(self.seconds, 3),
            "history": [record.as_row() for record in history.rounds],
        }
        write_atomically(self.folder / CHECKPOINT, json.dumps(manifest).encode())
        for path in (self.folder / "checkpoint").iterdir():  # of the round before, and what a kill has left behind
            if f"checkpoint/{path.name}" not in data:
                path.unlink()
        self.state, self.memory, self.node_states, self.history = state, memory, node_states, history
        self._files = manifest["files"]  # type: ignore[assignment]
        self.model_sha256 = self._files[_state_name(number)]
        self._publish(packed)

    def _publish(self, packed: bytes) -> None:
        """Write what people read: the latest model, the best one, and the table of rounds."""
        write_atomically(self.folder / "model.safetensors", packed)
        if self.history.best is not None and self.history.best is self.history.rounds[-1]:
            write_atomically(self.folder / "best.safetensors", packed)
        write_atomically(self.folder / "metrics.csv", _as_csv(self.history).encode())


def _state_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.state.safetensors"


def _memory_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.memory.safetensors"


def _nodes_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.nodes"


def _unpack(data: bytes) -> dict[str, Array]:
    try:
        arrays: dict[str, Array] = safetensors_load(data)
    except SafetensorError as error:
        raise CheckpointError(f"a stored state is no safetensors file: {error}") from None
    return arrays


def _as_csv(history: History) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *history.metrics.columns], lineterminator="\n")
    writer.writeheader()
    for record in history.rounds:
        row: dict[str, Any] = {k: round(v, 6) if isinstance(v, float) else v for k, v in record.as_row().items()}
        writer.writerow(row)
    return text.getvalue()
