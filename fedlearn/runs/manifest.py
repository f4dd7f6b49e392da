"""Read and write checkpoint.json: the parts of a stored round with their checksums, and a checksum of the file itself.

The first line holds the SHA-256 of all bytes that follow it::

    {"sha256": "9f2c...",
    "format": 2, "rounds": 3, ...}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from fedlearn.core.cohort import Typical
from fedlearn.core.errors import CheckpointError, SettingError, UsageError
from fedlearn.runs.appended import Written
from fedlearn.runs.file_names import BEST
from fedlearn.runs.files import sha256
from fedlearn.runs.memories import MemoryFile

FORMAT = 2
LARGEST = 1 << 26  # bytes; the names of 100,000 parameters take a tenth
HELD = re.compile(rb'\{"sha256": "([0-9a-f]{64})",\n(.*)\Z', re.DOTALL)
OTHER_FORMAT = re.compile(rb'\{[^{}]*"format": (\d{1,9})\b')  # format 1 had no checksum and began with these words

Setting = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `checkpoint.json`.

    Parameters
    ----------
    rounds
        How many rounds are committed.
    history_bytes, history_sha256
        How many bytes of the history's file belong to these rounds, and their SHA-256; bytes behind them are of a round
        that was never committed.
    files
        Name -> SHA-256 of the files that hold the state, the strategy's memory, what the nodes keep, and code that was
        given as objects; older versions did not name the code.
    parameters
        Names of the parameters in the model's order, by which codecs lay out a message; safetensors forgets the order.
    seconds
        How long the run has taken so far.
    cpu_seconds
        How much processor time it has taken so far; None if that is not known, as in a file of an older version.
    settings
        The settings that the run was begun with and has to keep.
    typical
        What reports of the next round are compared with; None if it is not known, as in a file of an older version.
    sizes
        Name -> number of bytes of each file, and of best.safetensors: no more of them is read.
    best_sha256
        The SHA-256 of best.safetensors; empty if no round is best yet.
    data
        The fingerprint of the data set; empty if it was not given.
    appended
        Name -> content so far of each file that is only appended to.
    nodes_whole
        How many bytes the file of what nodes keep had when it was last written as a whole.
    code
        File -> SHA-256 of own code that settings name; older versions did not name it.
    accepted
        A line for each time that the run went on with other code.
    arithmetic
        How many changes of fedlearn's arithmetic there were when this was written (`arithmetic.py`).
    """

    rounds: Annotated[int, Field(ge=0)]
    history_bytes: Annotated[int, Field(ge=0)]
    history_sha256: str
    files: dict[str, str]
    parameters: list[str]
    seconds: Annotated[float, Field(ge=0)]
    settings: dict[str, Setting]
    sizes: dict[str, Annotated[int, Field(ge=0)]] = field(default_factory=dict)
    best_sha256: str = ""
    data: str = ""
    format: int = FORMAT
    typical: Typical | None = None
    appended: dict[str, Written] = field(default_factory=dict)
    nodes_whole: Annotated[int, Field(ge=0)] = 0
    cpu_seconds: Annotated[float, Field(ge=0)] | None = None
    code: dict[str, str] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    arithmetic: Annotated[int, Field(ge=0)] = 0

    @classmethod
    def empty(cls) -> Manifest:
        """Return the manifest of a folder without a stored round."""
        return cls(0, 0, hashlib.sha256().hexdigest(), {}, [], 0.0, {}, cpu_seconds=0.0)

    def with_parts(
        self, parts: Mapping[str, bytes], *, kept: Sequence[str], code: Mapping[str, str], best: str
    ) -> Manifest:
        """Return the manifest that names the files of the next stored round, but for those that are appended to.

        Parameters
        ----------
        parts
            Name -> content of the new files.
        kept
            Files that stay, unless they are among the new ones.
        code
            Name -> SHA-256 of the files of code that was given as objects.
        best
            The file whose content is that of best.safetensors, if it is a new one; else best.safetensors stays.
        """
        is_better = best in parts
        stay = [name for name in kept if name not in parts]
        files = {**code, **{name: sha256(data) for name, data in parts.items()}}
        sizes = {name: len(data) for name, data in parts.items()}
        files |= {name: self.files[name] for name in stay}
        sizes |= {name: self.sizes[name] for name in stay if name in self.sizes}
        best_size = sizes[best] if is_better else self.sizes.get(BEST)
        return replace(
            self,
            files=files,
            sizes=sizes if best_size is None else {**sizes, BEST: best_size},
            best_sha256=files[best] if is_better else self.best_sha256,
            nodes_whole=0,
        )

    def with_memories(self, memories: MemoryFile) -> Manifest:
        """Return the manifest that also names the file of what nodes keep."""
        if not memories.name:
            return self
        return replace(
            self,
            files={**self.files, memories.name: memories.sha256},
            sizes={**self.sizes, memories.name: memories.size},
            nodes_whole=memories.whole,
        )

    def check_settings(self, settings: Mapping[str, Setting], folder: Path) -> None:
        """Refuse, by a SettingError, settings that differ from those that the run in `folder` was begun with."""
        name = next((name for name, value in settings.items() if self.settings.get(name, value) != value), None)
        if name is not None:
            begun = self.settings[name]
            raise SettingError(
                name, settings[name], f"the run in {folder} was begun with {begun!r}, and settings.toml was "
                "changed since: put that value back, or begin another run",
            )  # fmt: skip

    def check_data(self, fingerprint: str, folder: Path) -> None:
        """Refuse, by a UsageError, another data set than the run in `folder` was begun with, if both are known."""
        if self.data and fingerprint and self.data != fingerprint:
            raise UsageError(
                f"data.dir, or FEDLEARN_DATA, leads to other data than those that the run in {folder} was begun "
                f"with (fingerprint {fingerprint}, not {self.data}): lead it to the same, or begin another run"
            )

    def packed(self) -> bytes:
        """Return the content of the file."""
        entries = {each.name: getattr(self, each.name) for each in fields(self)}  # asdict would copy each of them
        rest = json.dumps(entries, default=asdict).encode()[1:]
        return b'{"sha256": "%s",\n%s' % (hashlib.sha256(rest).hexdigest().encode(), rest)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Return the manifest in a file.

        Raises
        ------
        CheckpointError
            If the file cannot be read, or its content is not what was written.
        """
        try:
            if not path.is_file() or path.stat().st_size > LARGEST:
                raise CheckpointError(
                    f"{path} is no file, or far too large: put back the one that was written, or begin another run"
                )
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
        held = HELD.match(data)
        if held is None and (other := OTHER_FORMAT.match(data)) is not None and int(other[1]) < FORMAT:
            raise CheckpointError(
                f"{path} has format {int(other[1])}, which had no checksum, and this version reads {FORMAT}: "
                "continue with the version that began the run, or begin another one"
            )
        if held is None or hashlib.sha256(held[2]).hexdigest().encode() != held[1]:
            raise CheckpointError(
                f"{path} is damaged or was changed by hand: its SHA-256 is not the one in its first line; "
                "put back the file that was written, or begin another run"
            )
        return _parsed(path, b"{" + held[2])


@cache
def _schema() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def _parsed(path: Path, data: bytes) -> Manifest:
    try:
        manifest = _schema().validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        raise CheckpointError(f"{path} cannot be read back: {where}: {first['msg']}"[:500]) from None
    if manifest.format != FORMAT:
        raise CheckpointError(f"{path} has format {manifest.format}, this version reads {FORMAT}")
    return manifest
