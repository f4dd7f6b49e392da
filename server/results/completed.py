"""A run that had completed its rounds before further rounds were asked of it."""

from __future__ import annotations

from contextlib import suppress

from fedlearn.core.errors import UsageError
from fedlearn.runs.file_names import SETTINGS
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.history import History

COMPLETED = "completed"


class Completed:
    """The results and settings of a completed run in a folder, as they are before the run goes on."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / SETTINGS
        self._rounds, self._settings = -1, b""
        with suppress(UsageError, OSError):  # a new run, or one that never ended
            summary = folder.read_summary()
            if summary.get("status") == COMPLETED:
                self._settings, self._rounds = self._path.read_bytes(), int(summary["rounds"])

    def put_back(self, history: History) -> bool:
        """Put the settings back if the run still has the rounds that it had completed; return whether it has.

        Its summary was not touched meanwhile.
        """
        if len(history.rounds) != self._rounds:
            return False
        with storing(self._path.parent, self._path):
            write_atomically(self._path, self._settings)
        return True
