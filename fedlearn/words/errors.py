"""The exceptions of fedlearn.

```text
FedlearnError            anything we raise on purpose; its text is one line a user can act on
├── UsageError           what was asked for cannot be done (exit code 2)
│   ├── SettingError     one setting has a value that is not allowed
│   ├── DataNotFound     a data set is not where it was looked for
│   └── BudgetExceeded   the privacy budget does not cover what was asked for
├── RunFailed            a run was started and could not go on (exit code 1)
│   └── CheckpointError  what was stored cannot be read back
└── Refused              one report was refused by the gate; the round goes on without it
```
"""

from __future__ import annotations

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
    r"""Return a text on one line in which nothing moves a cursor, rings, or turns the order of letters.

    >>> printable("two\nlines, \x1b[31mred\x1b[0m")
    'two lines, ?[31mred?[0m'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def quoted(value: object) -> str:
    """Return a value as an error quotes it: one short printable line, whatever it is.

    >>> quoted("cnn"), quoted(0x10 ** 10_000)
    ("'cnn'", 'something of type int that cannot be written')
    """
    try:
        return said(repr(value))
    except Exception:  # more digits than Python writes, nested too deeply, or a foreign __repr__
        return f"something of type {type(value).__name__} that cannot be written"


class FedlearnError(Exception):
    """Anything fedlearn raises on purpose."""

    exit_code = 1


class UsageError(FedlearnError):
    """What was asked for cannot be done; nothing was started. Its text, which may quote a stranger's, is printable."""

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(printable(text))


class SettingError(UsageError):
    """A setting has a value that is not allowed.

    Parameters
    ----------
    setting
        Its dotted name, as in ``--set training.lr=0.1``.
    value
        What it was set to.
    allowed
        What it may be set to, and what to do.
    """

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        self.setting = setting
        self.allowed = allowed
        super().__init__(f"{said(setting)} = {quoted(value)}: {printable(allowed)}")


class DataNotFound(UsageError):
    """A data set is in none of the places that were looked at."""


class BudgetExceeded(UsageError):
    """The privacy budget does not cover what was asked for; no data was touched and nothing was booked.

    Parameters
    ----------
    what
        What the budget was asked for.
    epsilon
        What it would have cost.
    remaining
        What is left of the budget.
    """

    def __init__(self, what: str, *, epsilon: float, remaining: float) -> None:
        self.epsilon = epsilon
        self.remaining = remaining
        super().__init__(f"{what}: needs epsilon {epsilon:g}, {remaining:g} is left: ask for less or stop here")


class RunFailed(FedlearnError):
    """A run was started and could not go on; all it had reached is stored."""


class CheckpointError(RunFailed):
    """A run folder is missing, damaged, or of other settings."""


class Refused(FedlearnError):
    """A report was refused before it could touch the model.

    Parameters
    ----------
    reason
        A short fixed word for tables and logs, as ``"wrong-shape"``.
    detail
        One line naming the parameter, what came and what was expected; cut, as it may quote what a node sent.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = said(detail)
        super().__init__(f"{reason}: {self.detail}")
