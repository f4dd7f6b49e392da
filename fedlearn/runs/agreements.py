"""What the owner of a client has agreed to: a page for each run that a server has announced, and a log of the answers.

The folder belongs to the owner. ``pages/ID.txt`` is what was shown; ``answers.log`` has a line for each answer, which
ends in the SHA-256 of itself and all lines before it. An answer is for one run, for its study (the same settings with
any seed, in any run folder), or no. The latest answer that fits a run counts. Other lines allow code that is in no
table of fedlearn, by the SHA-256 of its files, or no longer.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from fedlearn.core.errors import UsageError, quoted
from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, line_of, sound_lines
from fedlearn.runs.files import write_atomically
from fedlearn.runs.ledgers import LedgerFile

RUN, STUDY, NO, POLICY = "run", "study", "no", "policy"
CODE, NO_CODE = "code", "no-code"
MOST_WAITING = 50  # pages without an answer: a server could fill the disk with announcements
MOST_AUTOMATIC = 10_000  # lines that a policy writes
SHORT = 12  # digits of a SHA-256 that are shown where it decides nothing
WHOLE = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A line of the log.

    Parameters
    ----------
    answer
        `RUN`, `STUDY`, `NO`, or `POLICY` for a run that the owner's policy agrees to; `CODE` or `NO_CODE`.
    run, study
        Digests of the settings, with and without what a study leaves open; empty for code.
    page
        SHA-256 of the page that was shown; of the code.
    when, who, why
        In UTC; the user of the machine; in that user's words.
    """

    answer: str
    run: str
    study: str
    page: str
    when: str
    who: str
    why: str


class Agreements:
    """The folder of an owner's answers.

    Parameters
    ----------
    folder
        Made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._pages = folder / "pages"
        self._file = LedgerFile(folder, "answers", suffix=".log")

    def answers(self) -> list[Answer]:
        """Return the lines of the log; raise `LedgerDamaged` with the first one that is not as it was written."""
        found = []
        for number, plain, _ in sound_lines(self._file.read()):
            try:
                found.append(Answer(**plain))
            except TypeError:
                raise LedgerDamaged(number, "is no answer of an owner") from None
        return found

    def answer_to(self, run: str, study: str) -> str:
        """Return the latest answer that fits a run; empty if there is none."""
        fitting = (each.answer for each in reversed(self.answers()) if _fits(each, run, study))
        return next(fitting, "")

    def announce(self, run: str, study: str, page: str) -> None:
        """Write the page of a run, once; no further one while too many wait for an answer."""
        file = self._pages / f"{run}-{study}.txt"
        with self._alone():
            if not file.exists() and len(self.waiting()) < MOST_WAITING:
                self._pages.mkdir(parents=True, exist_ok=True)
                write_atomically(file, page.encode())

    def waiting(self) -> dict[str, str]:
        """Return run -> page of the runs that wait for an answer, oldest first."""
        answers = self.answers()
        found = {}
        for file in sorted(self._pages.glob("*-*.txt"), key=lambda file: (file.stat().st_mtime_ns, file.name)):
            run, _, study = file.stem.partition("-")
            if not any(_fits(each, run, study) for each in answers):
                found[run] = file.read_text()
        return found

    def agree_by_policy(self, run: str, study: str, page: str) -> bool:
        """Record that the owner's policy agrees to a run; return False where the log is full."""
        with self._alone():
            answers = self.answers()
            if not any(each.run == run for each in answers):
                if sum(each.answer == POLICY for each in answers) >= MOST_AUTOMATIC:
                    return False
                self._write(Answer(POLICY, run, study, _sum_of(page), "", "policy", "its model is agreed to"))
        return True

    def answer(self, which: str, answer: str, *, why: str = "") -> Answer:
        """Answer a run whose page is here, by its id or the first digits of it.

        Raises
        ------
        UsageError
            If there is not exactly one such page.
        """
        with self._alone():
            files = [file for file in self._pages.glob("*-*.txt") if file.name.startswith(which.lower())]
            if len(files) != 1 or not which:
                raise UsageError(f"{quoted(which)}: {len(files)} runs begin so; fedlearn agree lists their ids")
            run, _, study = files[0].stem.partition("-")
            return self._write(Answer(answer, run, study, _sum_of(files[0].read_text()), "", _user(), why))

    def allow(self, code: str, answer: str, *, why: str = "") -> Answer:
        """Allow code by the SHA-256 of its files, or no longer.

        Raises
        ------
        UsageError
            If it is no such SHA-256; all digits are needed.
        """
        if not WHOLE.fullmatch(code.lower()):
            raise UsageError(f"{quoted(code)}: give all 64 digits of the SHA-256 that the page of a run shows")
        with self._alone():
            return self._write(Answer(answer, "", "", code.lower(), "", _user(), why))

    def allows(self, code: str, always: Collection[str] = ()) -> bool:
        """Return whether the owner allows code: by the latest line about it, else as one of `always`."""
        lines = (
            each.answer for each in reversed(self.answers()) if each.answer in (CODE, NO_CODE) and each.page == code
        )
        return next(lines, CODE if code in always else NO_CODE) == CODE

    def _write(self, said: Answer) -> Answer:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.append(line_of({**asdict(said), "when": when}, check_of(self._file.read())))
        return said

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._file.alone():
            yield


def _fits(said: Answer, run: str, study: str) -> bool:
    if said.answer in (CODE, NO_CODE):
        return False
    return said.run == run or (said.answer in (STUDY, NO) and said.study == study)


def _sum_of(page: str) -> str:
    return sha256(page.encode()).hexdigest()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
