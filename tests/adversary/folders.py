"""Spoils run folders, finished and interrupted ones, and does with them what people do: resume, report, compare, look.

    python -m tests.adversary.folders                    # a sample, a minute
    python -m tests.adversary.folders --folders 300      # every way of every file, and more

Each file that a run leaves behind is spoiled in each of the ways that disks, editors, people and enemies have: there is
no list of the files. What is resumed must end with the bytes of a run that was never disturbed, or in one line with
exit code 1 or 2; what is only read must end in a page or in one line. Tracebacks, hangs and other bytes are findings:
exit code 1.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedlearn import cli, flower
from fedlearn.engine.apps import load_client_app, load_server_app
from fedlearn.report.serving import Watched
from tests.adversary import crashes, tiny

NAME = "run"  # of the tiny run that is spoiled
LONGEST_LINE = 6000  # characters of what the command says
MEMORY = 6 << 30  # bytes of address space that a command may take
SHOWN = 10
LOGS = ("events.jsonl", "nodes.csv", "nothing")  # appended to, whatever stands in them; through a link, too


# --- ways -------------------------------------------------------------------------------------------------------------


def _changed(change: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    def spoil(path: Path, rng: random.Random) -> None:
        data = path.read_bytes()
        path.write_bytes(change(data, rng))

    return spoil


def _replaced(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def spoil(path: Path, rng: random.Random) -> None:
        path.unlink()
        make(path)

    return spoil


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _other_values(data: bytes, rng: random.Random) -> bytes:
    """Put a value of another type in place of one, in whatever text this is."""
    values = [m.span() for m in re.finditer(rb'(?<=[ ,:=])(-?\d[\d.e+-]*|"[^"\n]*"|true|false|null)', data)]
    if not values:
        return b"null"
    start, end = rng.choice(values)
    others = [b"null", b'"many"', b"-7", b"1e999", b"[[1]]", b'{"a": 1}', b"true", b"9" * 5000, b"NaN", b"0"]
    return data[:start] + rng.choice(others) + data[end:]


def _without_a_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[:-1] if len(lines) < 2 else lines[: (at := rng.randrange(len(lines)))] + lines[at + 1 :])


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    "truncated": _changed(lambda data, rng: data[: rng.randrange(len(data) + 1)]),
    "flipped": _changed(_flipped),
    "emptied": _changed(lambda data, rng: b""),
    "removed": lambda path, rng: path.unlink(),
    "a folder": _replaced(Path.mkdir),
    "a pipe": _replaced(os.mkfifo),
    "a link to zeros": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "a link to nothing": _replaced(lambda path: path.symlink_to("nothing")),
    "a link to itself": _replaced(lambda path: path.symlink_to(path.name)),
    "another value": _changed(_other_values),
    "a line less": _changed(_without_a_line),
    "nested": _changed(lambda data, rng: rng.choice([b"[", b'{"a":', b"a = [["]) * 100_000),
    "many digits": _changed(lambda data, rng: re.sub(rb"\d+", b"7" * 5000, data, count=1)),
    "no text": _changed(lambda data, rng: rng.randbytes(300)),
    "other text": _changed(lambda data, rng: rng.choice([b"{}", b"[]", b"null", b"7", b"a = 1", b"x,y\n1,2\n", b"\0"])),
    "escapes": _changed(lambda data, rng: data.replace(b'"', b'"\x1b]0;x\x07', 3)),
    "of an old version": _changed(
        lambda data, rng: data.replace(b'"format": 2', b'"format": 1').replace(b"[", b"[x.", 1)
    ),
    "huge": lambda path, rng: os.truncate(path, 1 << 40),
}


# --- what people do ---------------------------------------------------------------------------------------------------


def commands(folder: Path, sound: Path) -> dict[str, Callable[[], int]]:
    """Return what is done with a spoiled folder, by name."""
    return {
        "resume": partial(_command, "simulate", "--quiet", "--resume", str(folder)),
        "report": partial(_command, "report", str(folder), "--out", str(folder.parent / "page")),
        "compare": partial(_command, "compare", str(folder), str(sound)),
        "dashboard": partial(_look, folder),
    }


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _command(*words: str) -> int:
    _limited()
    try:
        cli.main(list(words))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _look(folder: Path) -> int:
    """Read a folder as the live page does, twice."""
    _limited()
    watched = Watched([folder])
    watched.look()
    watched.look()
    return 0


def wrong_with(name: str, status: int, code: int, said: str) -> str:
    """Return what is wrong with the end of a command; empty if it is right."""
    if status:
        return f"it ended with status {status}: {said[-300:]}"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in said:
        return f"a traceback: {said[-300:]}"
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    if code and (len(errors) != 1 or len(errors[0]) > LONGEST_LINE):
        return f"exit code {code}, and it says {said[-300:]!r}"
    if not all(letter.isprintable() for line in errors for letter in line):
        return f"it writes to the terminal what it should not: {errors}"
    return ""


class Spoiled:
    """A finished folder and an interrupted one, to be spoiled.

    Parameters
    ----------
    place
        Where the folders are made.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.errors = place / "errors"
        settings = {**tiny.SETTINGS, **tiny.OWING}
        self.finished, self.interrupted = place / "finished" / NAME, place / "interrupted" / NAME
        status, operations = crashes.in_a_child(partial(crashes.run, settings, self.finished), self.errors)
        assert status == 0, self.errors.read_text()
        at = operations * 4 // 5
        crashes.in_a_child(partial(crashes.run, settings, self.interrupted, killed_at=at), self.errors)
        self.expected = crashes.content_of(self.finished)

    def cases(self) -> Iterator[tuple[Path, str, str]]:
        """Yield (folder, file, way) of every way of every file."""
        for folder in (self.finished, self.interrupted):
            files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            yield from ((folder, file, way) for file in files for way in WAYS)

    def tried(self, folder: Path, file: str, way: str, rng: random.Random, *, only: str = "") -> Iterator[str]:
        """Spoil a file and yield what is wrong with what becomes of the folder."""
        for name in commands(folder, self.finished):
            if only and name != only:
                continue
            with tempfile.TemporaryDirectory(dir=self.place) as place:
                spoiled = Path(place) / NAME
                shutil.copytree(folder, spoiled)
                WAYS[way](spoiled / file, random.Random(rng.random()))
                status, code = crashes.in_a_child(commands(spoiled, self.finished)[name], self.errors)
                what = wrong_with(name, status, code, self.errors.read_text(errors="replace"))
                if name == "resume" and not what and code == 0:
                    what = self._other_bytes(spoiled)
                if what:
                    yield f"{name} of {folder.parent.name}, {file} {way}: {what}"

    def _other_bytes(self, folder: Path) -> str:
        try:
            found = crashes.content_of(folder)
        except (OSError, ValueError, MemoryError) as error:
            return f"what is left behind cannot be read: {error!r}"
        lost = "best.safetensors" not in found  # said when the run was resumed: it cannot be made again
        compared = {*self.expected, *found} - {*LOGS} - ({"best.safetensors"} if lost else set())
        return crashes.difference(
            {name: text for name, text in found.items() if name in compared},
            {name: text for name, text in self.expected.items() if name in compared},
        )


def main(
    folders: Annotated[int, typer.Option(min=1, help="How many folders are spoiled.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 1,
    only: Annotated[str, typer.Option(help="Only this: resume, report, compare or dashboard.")] = "",
) -> None:
    """Spoil run folders and use them; exit code 1 if anything was found."""
    load_server_app()
    load_client_app()
    import fedlearn.report.writing  # noqa: F401 (now, and not in every child)

    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        spoiled = Spoiled(Path(place))
        cases = list(spoiled.cases())
        rng = random.Random(seed)
        chosen = rng.sample(cases, min(folders, len(cases))) + rng.choices(cases, k=max(folders - len(cases), 0))
        for number, (folder, file, way) in enumerate(chosen):
            found = list(spoiled.tried(folder, file, way, random.Random(f"{seed}/{number}"), only=only))
            wrong += found
            if found and len(wrong) <= SHOWN:
                print(json.dumps(found[0])[:600], flush=True)
    files = len({file for _, file, _ in chosen})
    print(f"folders={len(chosen)} files={files} ways={len({way for *_, way in chosen})} found={len(wrong)}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    flower.enter_run()
    sys.argv[0] = "fedlearn"
    typer.run(main)
