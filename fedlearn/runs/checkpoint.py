"""The run folder: everything a run leaves behind, written so that a kill at any moment loses nothing stored.

```text
runs/NAME/
├── settings.toml             every setting, resolved; --config reads it back
├── environment.json          versions and machine
├── data.json                 what is public of the data: shape, classes, mean and deviation of the channels
├── objects/                  code that was given as objects, from Python
├── events.jsonl              every transition, one JSON object a line
├── metrics.csv               one row a committed round
├── model.safetensors         the state after the latest round
├── best.safetensors          the state after the best evaluated round
├── checkpoint.json           what a stored round is made of, with the SHA-256 of each part and of itself
├── checkpoint/               what a resume needs: state, strategy memory, node states, history.jsonl
└── summary.json              results, when the run has ended
```

Each file is written aside, synced, and renamed into place. `checkpoint.json` is renamed last: until then the one
before it stands, with the files it names, which are removed only afterwards. The history is not written anew: a round
is appended and synced, and `checkpoint.json` says how many bytes count; what a kill has cut short lies behind them, and
the next round is written over it. So it is with what nodes keep (`memories.py`), which a private run stores between
commits, too, and with the files that others append to (`APPENDED`): a commit syncs them, too.

Rounds may be put off (``rounds.store_every``): they are stored with a later one, all or none of them. Until then the
states that it may have to hold are kept in memory.

Whoever changes a stored file by hand is told so when the run is resumed. A checksum is no signature: it is not made
against those who recompute it, and they, too, get at most one line.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from fedlearn.plugging import objects
from fedlearn.runs.appended import Appended, Written
from fedlearn.runs.files import storing, sync_folder, write_atomically, write_from, write_together
from fedlearn.runs.history import COLUMNS, History, RoundRecord
from fedlearn.runs.manifest import Manifest, Setting, first_difference
from fedlearn.runs.memories import NAME as NODES_NAME
from fedlearn.runs.memories import MemoryFile
from fedlearn.words.cohort import Typical
from fedlearn.words.errors import CheckpointError, SettingError, UsageError
from fedlearn.words.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.words.state import Array, State

CHECKPOINT = "checkpoint.json"
HISTORY = "checkpoint/history.jsonl"
TABLE = "metrics.csv"
BEST = "best.safetensors"
APPENDED = ("events.jsonl", "nodes.csv")  # by log.py and nodes.py
TIED = "tied"  # in the head of a file with a state
STATE_NAME = re.compile(r"checkpoint/round-(\d{6,})\.state\.safetensors")
OBJECT_NAME = re.compile(rf"{objects.FOLDER}/\w+-[0-9a-f]{{{objects.DIGITS}}}\.pickle")

log = logging.getLogger(__name__)


def pack_state(arrays: Mapping[str, Array], tied: Mapping[str, str] | None = None) -> bytes:
    """Return named arrays as a safetensors file; the same arrays give the same bytes.

    Parameters
    ----------
    tied
        Further names of some of them -> the name by which they are stored; stand in the file's head, as one text, since
        safetensors writes several in an order of chance.
    """
    named = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors_save(named, {TIED: json.dumps(dict(tied), sort_keys=True)} if tied else None)


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
    settings
        Those that the run has to keep (`folder.kept_settings`): stored with it, and compared when it is loaded.
    data
        The data set's fingerprint, likewise; empty if it is not to be compared.
    tied
        Further names of parameters of the state -> the name by which each is stored.
    """

    def __init__(
        self,
        folder: Path,
        metrics: Metrics = NEURAL_CLASSIFIER,
        settings: Mapping[str, Setting] | None = None,
        *,
        data: str = "",
        tied: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._tied = tied
        self.metrics = metrics
        self.state: State = {}
        self.memory: Mapping[str, Array] = {}
        self.node_states = b""  # as loaded; the engine has it from then on
        self.typical: Typical | None = None
        self.history = History(metrics=metrics)
        self.model_sha256 = ""
        self.seconds = 0.0
        self._settings = dict(settings or {})
        self._data = data
        self._states: dict[int, tuple[str, int]] = {}  # round -> SHA-256 and size of the state files there are
        self._objects: dict[str, str] = {}  # name -> SHA-256 of the code that was given as objects
        self._best_sha256 = ""
        self._best_size: int | None = None
        self._history_bytes = 0
        self._history_sha256 = hashlib.sha256()
        self._table_bytes = -1  # of metrics.csv as it was last written
        self._memories = MemoryFile()
        self._manifest: Manifest | None = None  # as it lies in the folder
        self._appended = {name: Appended(folder / name) for name in APPENDED}
        self._written: dict[str, Written] = {}
        self._put_off: list[RoundRecord] = []  # committed, and not stored yet
        self._unstored: dict[int, State] = {}  # the states after these rounds, as far as a store may have to hold them

    @property
    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return (self.folder / CHECKPOINT).exists()

    def begin(self, state: State) -> None:
        """Store the state before round 1.

        Raises
        ------
        CheckpointError
            If rounds were stored here whose checkpoint is gone: they are not run again unasked, as what secure noise
            has spent on them stays spent.
        """
        if lost := self._without_a_checkpoint():
            raise CheckpointError(
                f"{self.folder / CHECKPOINT} is missing, though {lost} was stored with it: put it back, or begin "
                "another run in another folder (privacy that was spent on these rounds stays spent)"
            )
        self._check_appended({}, 0)
        self._objects = self._found_objects()
        with storing(self.folder):
            self._write(state, {}, History(metrics=self.metrics), None, MemoryFile())

    def save(
        self,
        state: State,
        memory: Mapping[str, Array],
        record: RoundRecord,
        *,
        changed_nodes: bytes = b"",
        all_nodes: Callable[[], bytes] = bytes,
        seconds: float,
        typical: Typical | None = None,
        versions: Collection[int] = (),
    ) -> None:
        """Store the state after a committed round; how long that takes does not depend on how many there were before.

        Parameters
        ----------
        memory
            What the strategy carries from round to round.
        changed_nodes, all_nodes
            What the nodes keep between rounds, where the engine holds it for them: what has changed since the commit
            before, and a function that returns all of it (`memories.packed`).
        seconds
            How long the run has taken so far, over all its sessions.
        typical
            What reports of the next round are compared with.
        versions
            After which of the rounds before the states stay stored, too, as nodes still work on them (`state_of`).

        Raises
        ------
        RunFailed
            If a file cannot be written; the round before stays stored.
        """
        self.seconds, self.typical = seconds, typical
        with storing(self.folder):
            memories = self._with_memories(len(self.history.rounds) + 1, changed_nodes, all_nodes)
            self._write(state, memory, self.history.plus(record), record, memories, {*versions})

    def put_off(self, state: State, record: RoundRecord, *, is_worked_on: bool) -> None:
        """Take a committed round that is stored with a later one; a run that is killed before is gone on with without.

        Parameters
        ----------
        is_worked_on
            Nodes may still work on the state when it is stored: it is kept in memory until then, as that of the best
            round is.
        """
        history = self.history.plus(record)
        self._put_off.append(record)
        if not is_worked_on:
            best = 0 if history.best is None else history.best.round_number
            self._unstored = {number: kept for number, kept in self._unstored.items() if number == best}
        if is_worked_on or record is history.best:
            self._unstored[record.round_number] = state
        self.state, self.history = state, history

    def state_of(self, version: int) -> State:
        """Return the state after a round, the latest or one that was to stay stored.

        Raises
        ------
        CheckpointError
            If its file is missing, or its bytes are not those that were written.
        """
        if version == len(self.history.rounds):
            return self.state
        name = _state_name(version)
        if version not in self._states:
            raise CheckpointError(f"{self.folder / CHECKPOINT} does not name {name}, on which nodes still work")
        digest, size = self._states[version]
        state = self._unpack(name, self._read(name, digest, size=size))
        return {name: state[name].reshape(array.shape) for name, array in self.state.items()}  # of () there is (1,)

    def keep_nodes(self, changed: bytes) -> None:
        """Store what nodes keep before the round is committed, or where it never is: what they have paid for.

        Until the commit it is only appended: the file that the checkpoint names is never written over.

        Parameters
        ----------
        changed
            What has changed since it was last stored (`memories.packed`).

        Raises
        ------
        RunFailed
            If a file cannot be written; what was stored before stays stored.
        """
        assert self._manifest is not None
        before, name = self._memories, _nodes_name(len(self.history.rounds))
        with storing(self.folder):
            if before.name:
                write_from(self.folder / before.name, before.size, changed)
                memories = before.plus(changed)
            else:
                write_atomically(self.folder / name, changed)
                memories = MemoryFile.of(name, changed, whole=len(changed))
            self._put(self._manifest.with_memories(memories))
        self._memories = memories

    def load(self) -> None:
        """Read the stored checkpoint, and take away what a kill has left beside it.

        Raises
        ------
        CheckpointError
            If a file is missing or its bytes are not those that were written.
        UsageError
            If the run was begun with other settings or other data.
        """
        manifest = Manifest.read(self.folder / CHECKPOINT)
        self._check_settings(manifest)
        self._check_data(manifest)
        number = manifest.rounds
        nodes = next((name for name in manifest.files if NODES_NAME.fullmatch(name)), "")
        names = (_state_name(number), _memory_name(number))
        older = {name: int(found[1]) for name in manifest.files if (found := STATE_NAME.fullmatch(name))}
        states = {name for name, version in older.items() if version <= number}
        code = {name for name in manifest.files if OBJECT_NAME.fullmatch(name)}
        if names[0] not in manifest.files or not manifest.files.keys() <= {*names, *states, *code, nodes}:
            raise CheckpointError(f"{self.folder / CHECKPOINT} names other files than those of round {number}")
        written = self._read(HISTORY, manifest.history_sha256, first=manifest.history_bytes)
        history = History.of(_records(written, self.folder / HISTORY), self.metrics)
        if len(history.rounds) != number:
            raise CheckpointError(f"{self.folder / HISTORY} holds {len(history.rounds)} rounds instead of {number}")
        files, sizes = manifest.files, manifest.sizes
        data = {name: self._read(name, files[name], size=sizes.get(name)) for name in names if name in files}
        state, *memory = (self._unpack(name, data[name]) for name in names if name in data)
        if sorted(state) != sorted(manifest.parameters):
            raise CheckpointError(f"{self.folder / CHECKPOINT} names other parameters than {names[0]} holds")
        self.state = {name: state[name] for name in manifest.parameters}
        if twice := sorted(self.state.keys() & (self._tied or {}).keys()):
            raise UsageError(
                f"the run in {self.folder} was begun by a version of fedlearn that stored {twice[0]} apart from "
                f"{(self._tied or {})[twice[0]]}, though they are one parameter: begin another run"
            )
        self.memory = memory[0] if memory else {}
        self.node_states = self._read(nodes, files[nodes], first=sizes.get(nodes)) if nodes else b""
        self._memories = MemoryFile.of(nodes, self.node_states, whole=manifest.nodes_whole)
        self.history, self.seconds, self.model_sha256 = history, manifest.seconds, manifest.files[names[0]]
        self._manifest = manifest
        self.typical = manifest.typical
        self._states = {older[name]: (files[name], sizes.get(name, 0)) for name in states}
        self._history_bytes, self._history_sha256 = len(written), hashlib.sha256(written)
        self._best_sha256, self._best_size = manifest.best_sha256, manifest.sizes.get(BEST)
        self._check_best()
        for name in code:
            self._read(name, files[name])
        self._objects = self._found_objects()
        if not code and self._objects:
            log.warning(
                "%s: the version that began the run stored no checksums of the code in %s: it is gone on with as it is",
                self.folder, objects.FOLDER,
            )  # fmt: skip
        self._check_appended(manifest.appended, number)
        with storing(self.folder):
            sync_folder(self.folder)  # a kill may have come before it: until then the files of the round before count
            self._clear({*data, *states, nodes})
            self._publish(data[names[0]], self._best_stored(), [])

    def _check_settings(self, manifest: Manifest) -> None:
        name = first_difference(manifest.settings, self._settings)
        if name:
            begun = manifest.settings[name]
            raise SettingError(
                name, self._settings[name], f"the run in {self.folder} was begun with {begun!r}, and settings.toml was "
                "changed since: put that value back, or begin another run",
            )  # fmt: skip

    def _check_data(self, manifest: Manifest) -> None:
        if manifest.data and self._data and manifest.data != self._data:
            raise UsageError(
                f"data.dir, or FEDLEARN_DATA, leads to other data than those that the run in {self.folder} was begun "
                f"with (fingerprint {self._data}, not {manifest.data}): lead it to the same, or begin another run"
            )

    def _best_stored(self) -> bytes | None:
        """Return the state of the best round, if the checkpoint has it and the published one is another."""
        number = _best_of(self.history)
        if number not in self._states:
            return None
        digest, size = self._states[number]
        with suppress(CheckpointError):
            self._read(BEST, digest, size=size)
            return None
        return self._read(_state_name(number), digest, size=size)

    def _check_best(self) -> None:
        """Refuse a best state that is not the one that was written; one that the checkpoint has is written anew."""
        path, best = self.folder / BEST, self.history.best
        if best is None or best.round_number in self._states or not self._best_sha256:
            return
        if not path.exists():
            log.warning("%s is missing: the best state so far, of round %d, is lost", path, best.round_number)
            return
        try:
            self._read(BEST, self._best_sha256, size=self._best_size)
        except CheckpointError as error:
            raise CheckpointError(f"{error}, or remove it to go on without the best state so far") from None

    def _check_appended(self, stored: Mapping[str, Written], number: int) -> None:
        """Name a file that is not what was appended to it. No bytes of the model depend on it: the run may go on."""
        self._written = {}
        for name, appended in self._appended.items():
            written = stored.get(name)
            appended.check_size(written)
            if written is not None and appended.begins_with(written):
                self._written[name] = written
            elif written is not None:
                log.warning(
                    "%s is not what was written up to round %d: it was changed by hand, or lost in part; it is gone on "
                    "with as it is, and what it says of these rounds may be wrong",
                    appended.path, number,
                )  # fmt: skip

    def sound_bytes(self, name: str) -> int | None:
        """Return how many bytes of a file in `APPENDED` are those that were stored; None where nobody can say."""
        return self._written[name].size if name in self._written else None

    def _found_objects(self) -> dict[str, str]:
        """Return the files of code that was given as objects, by their SHA-256."""
        names = (f"{objects.FOLDER}/{path.name}" for path in sorted((self.folder / objects.FOLDER).glob("*.pickle")))
        return {name: sha256((self.folder / name).read_bytes()) for name in names if OBJECT_NAME.fullmatch(name)}

    def _without_a_checkpoint(self) -> str:
        """Return a file that shows that rounds were committed; empty if there is none."""
        begun = {_state_name(0), _memory_name(0)}
        for path in sorted((self.folder / "checkpoint").glob("[!.]*")):
            name = f"checkpoint/{path.name}"
            if name not in begun and (name != HISTORY or path.stat().st_size):
                return name
        return ""

    def _read(self, name: str, digest: str, *, size: int | None = None, first: int | None = None) -> bytes:
        """Return a file of a known size, or the first bytes of one, having compared the SHA-256."""
        path = self.folder / name
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

    def _unpack(self, name: str, data: bytes) -> dict[str, Array]:
        try:
            arrays: dict[str, Array] = safetensors_load(data)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.folder / name} is no safetensors file: {error}") from None
        return arrays

    def _write(
        self,
        state: State,
        memory: Mapping[str, Array],
        history: History,
        record: RoundRecord | None,
        memories: MemoryFile,
        versions: Collection[int] = (),
    ) -> None:
        number = len(history.rounds)
        new = self._unstored_states(number, history, versions)
        packed = new[number] = pack_state(state, self._tied)
        data = {_state_name(version): content for version, content in new.items()}
        if memory:
            data[_memory_name(number)] = pack_state(memory)
        write_together(self.folder, data)
        records = [] if record is None else [*self._put_off, record]
        lines = b"".join(json.dumps(each.as_row()).encode() + b"\n" for each in records)
        write_from(self.folder / HISTORY, self._history_bytes, lines)
        whole = self._history_sha256.copy()
        whole.update(lines)
        sizes = {name: len(content) for name, content in data.items()}
        files = self._objects | {name: sha256(content) for name, content in data.items()}
        states = {
            version: self._states[version] for version in sorted(versions) if version < number and version not in new
        }
        states |= {version: (files[_state_name(version)], len(content)) for version, content in new.items()}
        for version, (digest, size) in states.items():
            files[_state_name(version)], sizes[_state_name(version)] = digest, size
        best = new.get(_best_of(history)) if records else None
        if best is not None:
            self._best_sha256, self._best_size = states[_best_of(history)]
        appended = {name: each.synced() for name, each in self._appended.items()} if record is not None else {}
        self._written = {name: written for name, written in appended.items() if written is not None}
        manifest = Manifest(
            rounds=number,
            history_bytes=self._history_bytes + len(lines),
            history_sha256=whole.hexdigest(),
            files=files,
            parameters=list(state),
            seconds=round(self.seconds, 3),
            settings=self._settings,
            typical=self.typical,
            sizes=sizes | ({BEST: self._best_size} if self._best_size is not None else {}),
            best_sha256=self._best_sha256,
            data=self._data,
            appended=self._written,
        ).with_memories(memories)
        self._put(manifest)
        self.state, self.memory, self.node_states, self.history = state, memory, b"", history
        self._history_bytes, self._history_sha256, self._memories = manifest.history_bytes, whole, memories
        self.model_sha256, self._states = manifest.files[_state_name(number)], states
        self._put_off, self._unstored = [], {}
        self._clear({*manifest.files})
        self._publish(packed, best, records)

    def _unstored_states(self, number: int, history: History, versions: Collection[int]) -> dict[int, bytes]:
        """Return the states since the last store that have to be stored now: those worked on, and the best."""
        wanted = {*versions, _best_of(history)} & self._unstored.keys() - {number}
        return {version: pack_state(self._unstored[version], self._tied) for version in sorted(wanted)}

    def _put(self, manifest: Manifest) -> None:
        """Have the folder hold what a manifest names."""
        write_atomically(self.folder / CHECKPOINT, manifest.packed())
        self._manifest = manifest

    def _with_memories(self, number: int, changed: bytes, all_nodes: Callable[[], bytes]) -> MemoryFile:
        """Write what nodes keep after a round, beside or behind what the checkpoint names; return its file."""
        before = self._memories
        if not changed:
            return before
        if before.takes(changed):
            write_from(self.folder / before.name, before.size, changed)
            return before.plus(changed)
        data, name = all_nodes(), _nodes_name(number)
        if not data:
            return MemoryFile()
        write_atomically(self.folder / name, data)
        return MemoryFile.of(name, data, whole=len(data))

    def _clear(self, names: set[str]) -> None:
        """Remove the files of the round before, and what a kill has left behind."""
        for path in (self.folder / "checkpoint").iterdir():
            if f"checkpoint/{path.name}" not in names | {HISTORY} and not path.is_dir():
                path.unlink()
        for name in (CHECKPOINT, "model.safetensors", BEST, TABLE):
            (self.folder / f".{name}.tmp").unlink(missing_ok=True)

    def _publish(self, packed: bytes, best: bytes | None, records: Sequence[RoundRecord]) -> None:
        """Write what people read: the latest model, the best one if given, the table, to which `records` are new."""
        write_together(self.folder, {"model.safetensors": packed} | ({} if best is None else {BEST: best}))
        path, said = self.folder / TABLE, self.metrics.counts_in
        columns = [*COLUMNS, *self.metrics.columns, *said]
        is_ours = path.is_file() and not path.is_symlink() and path.stat().st_size == self._table_bytes
        if records and is_ours:
            rows = _as_csv(records, columns, said).encode()
            write_from(path, self._table_bytes, rows)
            self._table_bytes += len(rows)
        else:
            table = _as_csv(self.history.rounds, columns, said, header=True).encode()
            write_atomically(path, table)
            self._table_bytes = len(table)


def _best_of(history: History) -> int:
    """Return the number of the best round; -1 where none is best."""
    return -1 if history.best is None else history.best.round_number


def _state_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.state.safetensors"


def _memory_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.memory.safetensors"


def _nodes_name(number: int) -> str:
    return f"checkpoint/round-{number:06d}.nodes"


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


def _as_csv(
    records: Iterable[RoundRecord], columns: list[str], said: Mapping[str, str], *, header: bool = False
) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    for record in records:
        row: dict[str, Any] = {k: round(v, 6) if isinstance(v, float) else v for k, v in record.as_row().items()}
        writer.writerow({**row, **said})
    return text.getvalue()
