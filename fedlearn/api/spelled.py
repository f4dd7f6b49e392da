"""Errors of a call in the words of Python: the keyword as it was written, and keywords in place of flags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedlearn.api.given import KEYWORDS, PLAIN
from fedlearn.config.names import flags, names_of
from fedlearn.core.errors import FedlearnError, as_given, as_typed, quoted

ASSIGNED = re.compile(r"--set ([\w.]+)=([\w./:-]+|'[^']*')")
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)(?: ([\w./:-]*[\w/]))?")
BEGINNING = re.compile(r"--([a-z][a-z-]+) (\S+): ")  # of an error: a flag and its value
IS_VALUE = re.compile(r"[A-Z0-9/._]")  # in the word behind a flag; a name of a plugin is one, too
OF_RUN = ("resume", "accept-code", "dashboard", "log")  # keywords of `fedlearn.run` that are no settings
SWITCHES = ("accept-code",)  # of them, flags without a value


@contextmanager
def as_called(called: Mapping[str, Any]) -> Iterator[None]:
    """Let an error of the block name keywords: ``lr = 'x'`` for ``training.lr = 'x'``, ``resume=X`` for ``--resume X``.

    Parameters
    ----------
    called
        The keywords of the call with their values.
    """
    given = {word: value for word, value in called.items() if value is not None}
    try:
        with as_typed({KEYWORDS.get(word, word): _written(word, value) for word, value in given.items()}):
            yield
    except FedlearnError as error:
        paths = " ".join(str(value) for value in given.values() if isinstance(value, str | Path))
        error.args = (as_given(in_python(str(error)), paths),)
        raise


def _written(word: str, value: Any) -> str:
    return f"{word} = {quoted(value)}" if isinstance(value, PLAIN) else word


def in_python(text: str) -> str:
    """Return a text with keywords of `fedlearn.run` in place of flags.

    >>> in_python("write --set data.options.target=COLUMN, or resume by --resume runs/a")
    'write settings={"data.options.target": "COLUMN"}, or resume by resume="runs/a"'
    """
    if found := BEGINNING.match(text):
        text = f"{found[1].replace('-', '_')} = {found[2]!r}: {text[found.end() :]}"
    text = ASSIGNED.sub(lambda found: f'settings={{"{found[1]}": {_literal(found[2])}}}', text)
    return FLAG.sub(_keyword, text)


def _keyword(found: re.Match[str]) -> str:
    by_flag = {flag.name.removeprefix("--"): setting for setting, flag in flags().items()}
    name, value = found[1], found[2] or ""
    if name not in by_flag and name not in OF_RUN:
        return found[0]
    if name in SWITCHES:
        return f"{name.replace('-', '_')}=True"
    setting = by_flag.get(name, "")
    word = flags()[setting].parameter if setting else name.replace("-", "_")
    is_value = value and (IS_VALUE.search(value) or (setting and value in names_of(setting)))
    return f"{word}={_literal(value)}" if is_value else f"{word}{' ' * bool(value)}{value}"


def _literal(text: str) -> str:
    is_number = re.fullmatch(r"[0-9.]+|N|true|false", text)
    return text if is_number else f'"{text.strip(chr(39))}"'
