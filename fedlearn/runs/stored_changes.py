"""The changes of single clients in a run folder (``contributions.keep``): a file for each round."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError

from fedlearn.core.errors import UsageError, said
from fedlearn.core.state import Array, State
from fedlearn.core.state_files import pack_state, unpack_state
from fedlearn.runs.file_names import contributions_name
from fedlearn.runs.files import storing, write_atomically


def write_contributions(folder: Path, round_number: int, arrays: State) -> None:
    """Write the changes of a round; of round 0, the state before round 1."""
    path = folder / contributions_name(round_number)
    with storing(folder):
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, pack_state(arrays))


def read_contributions(folder: Path, round_number: int) -> dict[str, Array]:
    """Return what `write_contributions` has written; raise UsageError if it is not there, or was changed."""
    path = folder / contributions_name(round_number)
    try:
        return unpack_state(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: the run needs contributions.keep = true") from None
    except (SafetensorError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{path}: it is not what was written: {said(error)}") from None
