"""Hold a stored round as one value, and read it from its run folder; every checksum is compared before use."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError

from fedlearn.core.errors import CheckpointError, UsageError
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Array, State, is_same
from fedlearn.core.state_files import frozen_of, unpack_state
from fedlearn.plugins import objects
from fedlearn.runs.appended import Written
from fedlearn.runs.file_names import CHECKPOINT, HISTORY, NODE_STATES, STATE, memory_name, state_name
from fedlearn.runs.files import sha256
from fedlearn.runs.history import History, RoundRecord
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.memories import MemoryFile

OBJECT_NAME = re.compile(rf"{objects.FOLDER}/\w+-[0-9a-f]{{{objects.DIGITS}}}\.pickle")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """A round as the run folder holds it.

    Parameters
    ----------
    manifest
        The content of `checkpoint.json`.
    state
        The state after the round.
    memory
        What the strategy carries to the next round.
    history
        The rounds up to this one.
    history_content
        The running SHA-256 of the history's bytes; `manifest.history_bytes` says how many there are.
    memories
        The file of what the nodes keep.
    node_states
        The content of that file, as it was read; empty after a write, as the engine has it from then on.
    objects
        Name -> SHA-256 of the files of code that was given as objects.
    sound
        How much of each file that is only appended to (`appended.APPENDED`) is as it was stored; a file that was
        changed by hand is not in it.
    """

    manifest: Manifest
    state: State
    memory: Mapping[str, Array]
    history: History
    history_content: hashlib._Hash = field(default_factory=hashlib.sha256)
    memories: MemoryFile = field(default_factory=MemoryFile)
    node_states: bytes = b""
    objects: Mapping[str, str] = field(default_factory=dict)
    sound: Mapping[str, Written] = field(default_factory=dict)

    @classmethod
    def empty(cls, metrics: Metrics, objects: Mapping[str, str] | None = None) -> Stored:
        """Return the value for a folder without a stored round, which may hold code that was given as objects."""
        return cls(Manifest.empty(), {}, {}, History(metrics=metrics), objects=objects or {})

    @property
    def model_sha256(self) -> str:
        """The SHA-256 of the file of the state; empty before anything was stored."""
        return self.manifest.files.get(state_name(self.manifest.rounds), "")

    def holds_state(self, round_number: int) -> bool:
        """Return whether the state after a round is stored: the latest, or one on which nodes still work."""
        return state_name(round_number) in self.manifest.files


def read_stored(
    folder: Path, manifest: Manifest, metrics: Metrics, tied: Mapping[str, str], unsent: State, frozen: str = ""
) -> tuple[Stored, bytes]:
    """Return the round that a manifest names, and the content of the file of its state.

    Parameters
    ----------
    tied
        Further names of parameters -> the name by which each is stored.
    unsent
        The arrays of the model that are never sent, which the file holds beside the state.
    frozen
        Their digest, where they are stored once for all rounds.

    Raises
    ------
    CheckpointError
        If a file is missing or its bytes are not those that were written.
    UsageError
        If an older version has stored one parameter under two names, or the model now has other frozen parameters.
    """
    number, files = manifest.rounds, manifest.files
    state_file, memory_file = state_name(number), memory_name(number)
    nodes_file = next((name for name in files if NODE_STATES.fullmatch(name)), "")
    code = [name for name in files if OBJECT_NAME.fullmatch(name)]
    states = {name for name in files if (found := STATE.fullmatch(name)) and int(found[1]) <= number}
    if state_file not in files or not files.keys() <= {memory_file, nodes_file, *states, *code}:
        raise CheckpointError(f"{folder / CHECKPOINT} names other files than those of round {number}")
    lines = read_part(folder, HISTORY, manifest.history_sha256, first=manifest.history_bytes)
    history = History.of(_records(lines, folder / HISTORY), metrics)
    if len(history.rounds) != number:
        raise CheckpointError(f"{folder / HISTORY} holds {len(history.rounds)} rounds instead of {number}")
    packed = _read_named(folder, manifest, state_file)
    memory = _read_named(folder, manifest, memory_file) if memory_file in files else None
    state = unpack_part(folder, state_file, packed)
    if stored_once := frozen_of(packed):
        if stored_once != frozen:
            raise UsageError(
                f"the run in {folder} was begun with other numbers in arrays that are never sent: give the model the "
                "weights that it had, or begin another run"
            )
        unsent = {}
    if sorted(state) != sorted({*manifest.parameters, *unsent}):
        raise CheckpointError(f"{folder / CHECKPOINT} names other parameters than {state_file} holds")
    if sent := sorted(unsent.keys() & set(manifest.parameters)):
        raise UsageError(
            f"the run in {folder} was begun by a version of fedlearn that sent {sent[0]}, though it is frozen or "
            "constant: begin another run, from its model"
        )
    others = [n for n, array in unsent.items() if not is_same({n: state[n].reshape(array.shape)}, {n: array})]
    if others:
        raise UsageError(
            f"the run in {folder} was begun with other numbers in {others[0]}, which is never sent: give the model the "
            "weights that it had, or begin another run"
        )
    if twice := sorted(state.keys() & tied.keys()):
        raise UsageError(
            f"the run in {folder} was begun by a version of fedlearn that stored {twice[0]} apart from "
            f"{tied[twice[0]]}, though they are one parameter: begin another run"
        )
    nodes = b""
    if nodes_file:
        nodes = read_part(folder, nodes_file, files[nodes_file], first=manifest.sizes.get(nodes_file))
    stored = Stored(
        manifest,
        {name: state[name] for name in manifest.parameters},
        {} if memory is None else unpack_part(folder, memory_file, memory),
        history,
        hashlib.sha256(lines),
        MemoryFile.of(nodes_file, nodes, whole=manifest.nodes_whole),
        nodes,
    )
    return stored, packed


def read_state(folder: Path, stored: Stored, round_number: int) -> State:
    """Return the state after a round that a stored round names beside its own.

    Raises
    ------
    CheckpointError
        If it is not named, its file is missing, or its bytes are not those that were written.
    """
    name = state_name(round_number)
    if not stored.holds_state(round_number):
        raise CheckpointError(f"{folder / CHECKPOINT} does not name {name}, on which clients still work")
    state = unpack_part(folder, name, _read_named(folder, stored.manifest, name))
    return {name: state[name].reshape(array.shape) for name, array in stored.state.items()}  # of () there is (1,)


def read_code(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Return the files of code that was given as objects, by their SHA-256, once those that a manifest names are sound.

    Raises
    ------
    CheckpointError
        If one of the named files is missing or its bytes are not those that were written.
    """
    named = [name for name in manifest.files if OBJECT_NAME.fullmatch(name)]
    for name in named:
        read_part(folder, name, manifest.files[name])
    found = found_code(folder)
    if not named and found:
        log.warning(
            "%s: the version that began the run stored no checksums of the code in %s: the run continues with the code "
            "as it is",
            folder, objects.FOLDER,
        )  # fmt: skip
    return found


def found_code(folder: Path) -> dict[str, str]:
    """Return the files of code that was given as objects, by their SHA-256."""
    names = (f"{objects.FOLDER}/{path.name}" for path in sorted((folder / objects.FOLDER).glob("*.pickle")))
    return {name: sha256((folder / name).read_bytes()) for name in names if OBJECT_NAME.fullmatch(name)}


def _read_named(folder: Path, manifest: Manifest, name: str) -> bytes:
    return read_part(folder, name, manifest.files[name], size=manifest.sizes.get(name))


def read_part(folder: Path, name: str, digest: str, *, size: int | None = None, first: int | None = None) -> bytes:
    """Return a file, or its first bytes, having compared the SHA-256.

    Parameters
    ----------
    size
        How many bytes the file has; None where that was not stored.
    first
        How many bytes count; others may lie behind them. None: all of them.

    Raises
    ------
    CheckpointError
        If the file is missing or its bytes are not those that were written.
    """
    path = folder / name
    try:
        if not path.is_file():  # anything else might never end
            raise FileNotFoundError(errno.ENOENT, "it is missing, or no file")
        found = path.stat().st_size
        with path.open("rb") as file:
            data = file.read(min(found, first if first is not None else size if size is not None else found))
    except OSError as error:
        raise CheckpointError(f"{path}, which {CHECKPOINT} names, cannot be read: {error.strerror}") from None
    if sha256(data) != digest or (size is not None and size != found):
        raise CheckpointError(
            f"{path} is damaged or was changed by hand: its SHA-256 is not the one that {CHECKPOINT} names; "
            "put back the file that was written, or begin another run"
        )
    return data


def unpack_part(folder: Path, name: str, data: bytes) -> dict[str, Array]:
    """Return the arrays of a file of which `data` is the content; CheckpointError if it holds none."""
    try:
        return unpack_state(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / name} is no safetensors file: {error}") from None


def _records(data: bytes, path: Path) -> Iterator[RoundRecord]:
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            record = RoundRecord.from_row(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: line {number} cannot be read back: {what}") from None
        if record.round_number != number:
            raise CheckpointError(f"{path}: line {number} is of round {record.round_number}")
        yield record
