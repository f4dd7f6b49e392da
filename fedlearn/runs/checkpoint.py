"""Store committed rounds in the run folder so that a kill at any moment loses no stored round.

Each file is written aside, synced, and renamed into place (`files.py`). `checkpoint.json` is renamed last: until then
the one before it stands, with the files it names, which are removed only afterwards. The history is not written anew: a
round is appended and synced, and `checkpoint.json` says how many bytes count; the remains of a killed write lie behind
these bytes, and the next round is written over them. The file of what the nodes keep grows in the same way
(`memories.py`); a private run stores it between commits, too. A commit also syncs the files that others append to
(`appended.py`). What people read is written when the round is stored (`published.py`). No other user may read the
memory of the strategy, as it may hold noise that later rounds depend on.

Rounds may be put off (``rounds.store_every``): they are stored with a later one, all or none of them. Until then the
states that a store may have to hold are kept in memory.

A stored file that was changed by hand is named when the run is resumed. A checksum is no signature: it does not protect
from an attacker who computes it anew, and a resume from such a file, too, ends in at most one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fedlearn.core.cohort import Typical
from fedlearn.core.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.core.state import Array, State, digest_of
from fedlearn.core.state_files import pack_state
from fedlearn.runs.appended import AppendedFiles
from fedlearn.runs.arithmetic import CHANGES
from fedlearn.runs.committed import Committed
from fedlearn.runs.file_names import CHECKPOINT, FROZEN, HISTORY, kept_name, memory_name, state_name
from fedlearn.runs.files import storing, sync_folder, write_atomically, write_from, write_together
from fedlearn.runs.history import History, RoundRecord
from fedlearn.runs.kept_whole import keep_whole
from fedlearn.runs.manifest import Manifest, Setting
from fedlearn.runs.memories import MemoryFile, appended, begun, written
from fedlearn.runs.published import Published, best_to_publish, check_best
from fedlearn.runs.stale_files import check_not_lost, clear
from fedlearn.runs.stored_round import Stored, found_code, read_code, read_state, read_stored

LARGE = 32 << 20  # bytes of arrays that no round changes, from which on they are stored once


class RunStore:
    """The latest committed state of a run and its history, stored in the run folder.

    Parameters
    ----------
    folder
        The run folder.
    metrics
        What is measured: further columns of the table, and which round is best.
    settings
        The settings that the run has to keep (`settings.kept_settings`): stored with it, and compared when it is
        loaded.
    data
        The data set's fingerprint, likewise; empty if it is not to be compared.
    code
        File -> SHA-256 of own code, as it is stored with the run.
    tied
        Further names of parameters of the state -> the name by which each is stored.
    unsent
        The arrays of the model that are never sent: files of a state hold them beside it, so that they hold the model.
        From `LARGE` on they are stored once, and files of a state hold their digest.
    keep_every
        Rounds between the whole checkpoints that stay (`kept_whole.py`); 0 keeps none.
    """

    def __init__(
        self,
        folder: Path,
        metrics: Metrics = NEURAL_CLASSIFIER,
        settings: Mapping[str, Setting] | None = None,
        *,
        data: str = "",
        code: Mapping[str, str] | None = None,
        tied: Mapping[str, str] | None = None,
        unsent: State | None = None,
        keep_every: int = 0,
    ) -> None:
        self.folder = folder
        self._keep_every = keep_every
        self.metrics = metrics
        self._settings = dict(settings or {})
        self._data = data
        self._code = dict(code or {})
        self._tied = dict(tied or {})
        self._unsent = unsent or {}
        is_large = sum(array.nbytes for array in self._unsent.values()) >= LARGE
        self._frozen = digest_of(self._unsent) if is_large else ""
        self._appended = AppendedFiles(folder)
        self._published = Published(folder)
        self._stored = Stored.empty(metrics)
        self._committed = Committed({}, self._stored.history)

    @property
    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return (self.folder / CHECKPOINT).exists()

    @property
    def state(self) -> State:
        """The state after the latest committed round."""
        return self._committed.state

    @property
    def history(self) -> History:
        """All committed rounds."""
        return self._committed.history

    @property
    def memory(self) -> Mapping[str, Array]:
        """What the strategy carried on from the latest stored round."""
        return self._stored.memory

    @property
    def node_states(self) -> bytes:
        """What the nodes keep, as it was loaded (`memories.packed`); empty once a round was stored."""
        return self._stored.node_states

    @property
    def arithmetic(self) -> int:
        """How many changes of fedlearn's arithmetic there were when the stored round was written."""
        return self._stored.manifest.arithmetic

    @property
    def typical(self) -> Typical | None:
        """What reports are compared with after the latest stored round."""
        return self._stored.manifest.typical

    @property
    def seconds(self) -> float:
        """How long the run had taken when its latest round was stored."""
        return self._stored.manifest.seconds

    @property
    def cpu_seconds(self) -> float | None:
        """How much processor time the run had taken when its latest round was stored; None if it is not known."""
        return self._stored.manifest.cpu_seconds

    @property
    def model_sha256(self) -> str:
        """The SHA-256 of the file of the latest stored state."""
        return self._stored.model_sha256

    def sound_bytes(self, name: str) -> int | None:
        """Return how many bytes of a file in `APPENDED` are as they were stored; None where this is not known."""
        written = self._stored.sound.get(name)
        return None if written is None else written.size

    def begin(self, state: State) -> None:
        """Store the state before round 1.

        Raises
        ------
        CheckpointError
            If rounds were stored here whose checkpoint is gone: they are not run again unasked, as what secure noise
            has spent on them stays spent.
        """
        check_not_lost(self.folder)
        self._appended.sound({}, 0)
        self._stored = Stored.empty(self.metrics, found_code(self.folder))
        with storing(self.folder):
            (self.folder / FROZEN).unlink(missing_ok=True)  # of a run that was never begun
            self._keep_frozen()
            self._store(Committed(state, self._stored.history), {}, MemoryFile())

    def save(
        self,
        state: State,
        memory: Mapping[str, Array],
        record: RoundRecord,
        *,
        changed_nodes: bytes = b"",
        all_nodes: Callable[[], bytes] = bytes,
        seconds: float,
        cpu_seconds: float | None = None,
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
        seconds, cpu_seconds
            How long the run has taken so far, over all its sessions, and how much processor time; None if unknown.
        typical
            What reports of the next round are compared with.
        versions
            After which of the rounds before the states stay stored, too, as nodes still work on them (`state_of`).

        Raises
        ------
        RunFailed
            If a file cannot be written; the round before stays stored.
        """
        with storing(self.folder):
            number = len(self.history.rounds) + 1
            memories = written(self.folder, self._stored.memories, number, changed_nodes, all_nodes)
            committed = self._committed.plus(state, record, is_worked_on=True)
            self._store(
                committed, memory, memories,
                versions={*versions}, seconds=seconds, cpu_seconds=cpu_seconds, typical=typical,
            )  # fmt: skip

    def put_off(self, state: State, record: RoundRecord, *, is_worked_on: bool) -> None:
        """Take a committed round that is stored with a later one; a run that is killed before is resumed without it.

        Parameters
        ----------
        is_worked_on
            Nodes may still work on the state when it is stored: it is kept in memory until then, as that of the best
            round is.
        """
        self._committed = self._committed.plus(state, record, is_worked_on=is_worked_on)

    def keep_model(self, state: State, round_number: int) -> None:
        """Write the state after a round into a file that stays; before the round counts, so that a kill loses none."""
        with storing(self.folder):
            write_atomically(self.folder / kept_name(round_number), self._packed(state))

    def state_of(self, version: int) -> State:
        """Return the state after a round: the latest one, or one that was to stay stored.

        Raises
        ------
        CheckpointError
            If its file is missing, or its bytes are not those that were written.
        """
        return self.state if version == len(self.history.rounds) else read_state(self.folder, self._stored, version)

    def keep_nodes(self, changed: bytes) -> None:
        """Store what nodes keep, as what they have paid for, before the round is committed, or where it never is.

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
        before, number = self._stored.memories, len(self.history.rounds)
        with storing(self.folder):
            memories = appended(self.folder, before, changed) if before.name else begun(self.folder, number, changed)
            manifest = self._stored.manifest.with_memories(memories)
            write_atomically(self.folder / CHECKPOINT, manifest.packed())
        self._stored = replace(self._stored, manifest=manifest, memories=memories)

    def load(self) -> None:
        """Read the stored checkpoint, and remove the remains of a killed write.

        Raises
        ------
        CheckpointError
            If a file is missing or its bytes are not those that were written.
        UsageError
            If the run was begun with other settings or other data.
        """
        manifest = Manifest.read(self.folder / CHECKPOINT)
        manifest.check_settings(self._settings, self.folder)
        manifest.check_data(self._data, self.folder)
        stored, packed = read_stored(self.folder, manifest, self.metrics, self._tied, self._unsent, self._frozen)
        check_best(self.folder, stored)
        code = read_code(self.folder, manifest)
        sound = self._appended.sound(manifest.appended, manifest.rounds)
        self._stored = stored = replace(stored, objects=code, sound=sound)
        self._committed = Committed(stored.state, stored.history)
        with storing(self.folder):
            sync_folder(self.folder)  # a kill may have come before it: until then the files of the round before count
            clear(self.folder, manifest.files)
            self._keep_frozen()
            self._published.write(packed, best_to_publish(self.folder, stored), stored.history, [], self.metrics)

    def _packed(self, state: State) -> bytes:
        return pack_state(state if self._frozen else {**self._unsent, **state}, self._tied, self._frozen)

    def _keep_frozen(self) -> None:
        """Store large arrays that are never sent, once for all rounds."""
        if self._frozen and not (self.folder / FROZEN).exists():
            write_atomically(self.folder / FROZEN, pack_state(self._unsent))

    def _store(
        self, committed: Committed, memory: Mapping[str, Array], memories: MemoryFile, *,
        versions: Collection[int] = (), seconds: float = 0.0, cpu_seconds: float | None = 0.0,
        typical: Typical | None = None,
    ) -> None:  # fmt: skip
        """Store a round with the rounds that were put off before it, then publish it; parameters as those of `save`."""
        history, new = committed.history, committed.put_off
        number, best = len(history.rounds), state_name(history.best_round) if new else ""
        unsent: State = {} if self._frozen else self._unsent
        parts = committed.packed_states(versions, self._tied, unsent, self._frozen)
        if memory:
            parts[memory_name(number)] = pack_state(memory)
        kept = [state_name(version) for version in sorted(versions) if version < number]
        manifest = replace(
            self._stored.manifest.with_parts(parts, kept=kept, code=self._stored.objects, best=best),
            rounds=number, parameters=list(committed.state), typical=typical, settings=self._settings, data=self._data,
            code=self._code, arithmetic=len(CHANGES),
            seconds=round(seconds, 3), cpu_seconds=None if cpu_seconds is None else round(cpu_seconds, 3),
        )  # fmt: skip
        self._stored = self._write(manifest, parts, committed, memory, memories)
        self._committed = Committed(committed.state, history)
        clear(self.folder, self._stored.manifest.files)
        self._published.write(parts[state_name(number)], parts.get(best), history, new, self.metrics)

    def _write(
        self, manifest: Manifest, parts: Mapping[str, bytes], committed: Committed, memory: Mapping[str, Array],
        memories: MemoryFile,
    ) -> Stored:  # fmt: skip
        """Write the files `parts` and the lines of new rounds, then the manifest; return what is stored from then on.

        A round counts from the moment that `checkpoint.json` is in its place. `manifest` names all but the files that
        are appended to.
        """
        before, new = self._stored, committed.put_off
        write_together(self.folder, parts, secret={memory_name(len(committed.history.rounds))})
        lines = b"".join(json.dumps(each.as_row()).encode() + b"\n" for each in new)
        write_from(self.folder / HISTORY, before.manifest.history_bytes, lines)
        content = before.history_content.copy()
        content.update(lines)
        manifest = replace(
            manifest,
            history_bytes=before.manifest.history_bytes + len(lines),
            history_sha256=content.hexdigest(),
            appended=self._appended.synced() if new else {},
        ).with_memories(memories)
        if new and self._keep_every and manifest.rounds % self._keep_every == 0:
            keep_whole(self.folder, manifest)
        write_atomically(self.folder / CHECKPOINT, manifest.packed())
        return replace(
            before, manifest=manifest, state=committed.state, memory=memory, history=committed.history,
            history_content=content, memories=memories, node_states=b"", sound=manifest.appended,
        )  # fmt: skip
