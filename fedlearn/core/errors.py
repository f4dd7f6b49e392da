"""The exceptions of fedlearn.

```text
FedlearnError            any error raised on purpose; its text is one line that a user can act on
├── UsageError           the request cannot be met (exit code 2)
│   ├── SettingError     one setting has a value that is not allowed
│   ├── DataNotFound     a data set is in none of the expected places
│   └── BudgetExceeded   the privacy budget does not cover a request
├── RunFailed            a run was started and could not go on (exit code 1)
│   └── CheckpointError  a stored run cannot be read back
└── Refused              one report was refused by the gate; the round goes on without it
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HEAD = re.compile(r"""([\w.]+) = ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^:'"]*): """)  # of a SettingError
LONGEST_SAID = 300  # characters of a stranger's text that are kept


def said(text: object) -> str:
    r"""Return a foreign text as one short line that is safe to print in a log or a terminal.

    >>> said("no disk\n\x1b]0;title\x07 and more")
    'no disk'
    >>> said("\x1b[2Jboo")
    '?[2Jboo'
    """
    lines = (line.strip() for line in str(text)[: 100 * LONGEST_SAID].splitlines())
    line = next((line for line in lines if line), "")
    shown = printable(line[: LONGEST_SAID + 1])
    return shown if len(shown) <= LONGEST_SAID else shown[:LONGEST_SAID] + "..."


def printable(text: str) -> str:
    r"""Return a text on one line, without characters that move a cursor, ring, or reverse the order of letters.

    >>> printable("two\nlines, \x1b[31mred\x1b[0m")
    'two lines, ?[31mred?[0m'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def quoted(value: object) -> str:
    """Return any value as an error quotes it: one short printable line.

    >>> quoted("cnn"), quoted(0x10 ** 10_000)
    ("'cnn'", 'something of type int that cannot be written')
    """
    try:
        return said(repr(value))
    except Exception:  # more digits than Python writes, nested too deeply, or a foreign __repr__
        return f"something of type {type(value).__name__} that cannot be written"


class FedlearnError(Exception):
    """Any error that fedlearn raises on purpose."""

    exit_code = 1
    folder: Path | None = None  # that of the run that it has ended


class UsageError(FedlearnError):
    """A request cannot be met; no run was started. The text is printable, even where it quotes a foreign text.

    >>> raise UsageError("--clients 0: give at least 1")
    Traceback (most recent call last):
        ...
    fedlearn.core.errors.UsageError: --clients 0: give at least 1
    """

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(printable(text))


class SettingError(UsageError):
    """A setting has a value that is not allowed.

    Parameters
    ----------
    setting
        The setting's dotted name, as in ``--set training.lr=0.1``.
    value
        The value that it was given.
    allowed
        The values that are allowed, and what to do.

    Examples
    --------
    >>> print(SettingError("training.lr", -1, "give a number above 0"))
    training.lr = -1: give a number above 0
    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        self.setting = setting
        self.allowed = allowed
        given = f"{setting} {said(value)}" if setting.startswith("--") else f"{said(setting)} = {quoted(value)}"
        super().__init__(f"{given}: {printable(allowed)}")


def as_given(text: str, given: str) -> str:
    """Return a text with paths relative to the current folder, unless what was given names that folder, too."""
    here = str(Path.cwd())
    return text if here in given else text.replace(f"{here}/", "")


@contextmanager
def as_typed(typed: Mapping[str, str]) -> Iterator[None]:
    """Let an error of the block begin with what the user wrote: ``--clients 0: ...`` for ``clients = '0': ...``.

    Parameters
    ----------
    typed
        Setting -> what the user wrote for it.
    """
    try:
        yield
    except FedlearnError as error:
        found = HEAD.match(str(error))
        if found and found[1] in typed:
            error.args = (f"{typed[found[1]]}: {str(error)[found.end() :]}",)
        raise


class DataNotFound(UsageError):
    """A data set is in none of the places that were searched."""


class BudgetExceeded(UsageError):
    """The privacy budget does not cover a request; no data was touched and no epsilon was booked.

    Parameters
    ----------
    what
        The request, in words.
    epsilon
        The epsilon that it would have cost.
    remaining
        The epsilon that is left of the budget.
    """

    def __init__(self, what: str, *, epsilon: float, remaining: float) -> None:
        self.epsilon = epsilon
        self.remaining = remaining
        super().__init__(f"{what}: needs epsilon {epsilon:g}, {remaining:g} is left: ask for less or stop here")


class RunFailed(FedlearnError):
    """A run was started and could not go on; every committed round is stored."""


def error_of(exit_code: int, text: str) -> UsageError | RunFailed:
    """Return the error that another process has told by its exit code and its text."""
    return (UsageError if exit_code == UsageError.exit_code else RunFailed)(text)


class CheckpointError(RunFailed):
    """A run folder is missing, damaged, or belongs to other settings."""


class Refused(FedlearnError):
    """A report was refused before it could touch the model.

    Parameters
    ----------
    reason
        A short fixed word for tables and logs, as ``"wrong-shape"``.
    detail
        One line that names the parameter, the value received and the value expected; cut, as it may quote a node.

    Examples
    --------
    >>> print(Refused("wrong-shape", "fc.weight: (3,), not (4,)"))
    wrong-shape: fc.weight: (3,), not (4,)
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = said(detail)
        super().__init__(f"{reason}: {self.detail}")
