"""Write the files that people read: the latest model, the best one, and the table of rounds, after each store."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fedlearn.core.errors import CheckpointError
from fedlearn.core.metrics import Metrics
from fedlearn.runs.file_names import BEST, MODEL, TABLE, state_name
from fedlearn.runs.files import write_atomically, write_from, write_together
from fedlearn.runs.history import COLUMNS, History, RoundRecord
from fedlearn.runs.stored_round import Stored, read_part

log = logging.getLogger(__name__)


class Published:
    """The writer of the files that people read.

    Parameters
    ----------
    folder
        The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._table_bytes = -1  # of metrics.csv as it was last written

    def write(
        self, model: bytes, best: bytes | None, history: History, new: Sequence[RoundRecord], metrics: Metrics
    ) -> None:
        """Write the latest model, the best one if it is given, and the table.

        Parameters
        ----------
        model, best
            Content of the files.
        history
            All rounds of the table.
        new
            The last of them, as many as are not in the table yet; with none given, the table is written anew.
        metrics
            The columns of the table.
        """
        write_together(self._folder, {MODEL: model} | ({} if best is None else {BEST: best}))
        path = self._folder / TABLE
        is_ours = path.is_file() and not path.is_symlink() and path.stat().st_size == self._table_bytes
        if new and is_ours:
            rows = _as_csv(new, metrics).encode()
            write_from(path, self._table_bytes, rows)
            self._table_bytes += len(rows)
        else:
            table = _as_csv(history.rounds, metrics, header=True).encode()
            write_atomically(path, table)
            self._table_bytes = len(table)


def check_best(folder: Path, stored: Stored) -> None:
    """Refuse a file of the best state that is not the one that was written, unless the checkpoint holds that state.

    A file that is missing is named in a warning.

    Raises
    ------
    CheckpointError
        Naming the file.
    """
    path, best, manifest = folder / BEST, stored.history.best, stored.manifest
    if best is None or stored.holds_state(best.round_number) or not manifest.best_sha256:
        return
    if not path.exists():
        log.warning("%s is missing: the best state so far, of round %d, is lost", path, best.round_number)
        return
    try:
        read_part(folder, BEST, manifest.best_sha256, size=manifest.sizes.get(BEST))
    except CheckpointError as error:
        raise CheckpointError(f"{error}, or remove it to go on without the best state so far") from None


def best_to_publish(folder: Path, stored: Stored) -> bytes | None:
    """Return the best state from the checkpoint; None if it is not there, or the published file already holds it."""
    best = stored.history.best
    if best is None or not stored.holds_state(best.round_number):
        return None
    name, manifest = state_name(best.round_number), stored.manifest
    digest, size = manifest.files[name], manifest.sizes.get(name)
    with suppress(CheckpointError):
        read_part(folder, BEST, digest, size=size)
        return None
    return read_part(folder, name, digest, size=size)


def _as_csv(records: Iterable[RoundRecord], metrics: Metrics, *, header: bool = False) -> str:
    """Return the rows of a table, its numbers to six digits; scores are whole, to be compared with other programs."""
    said, whole = metrics.counts_in, {metric.name for metric in metrics.evaluated if metric.is_score}
    columns = [*COLUMNS, *metrics.columns, *said]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    for record in records:
        row = record.as_row()
        row |= {k: round(v, 6) for k, v in row.items() if isinstance(v, float) and k not in whole}
        writer.writerow({**row, **said})
    return text.getvalue()
