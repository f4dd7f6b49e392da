"""Show the progress of a run to Python users: in the cell of a notebook, in a terminal, or as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from fedlearn.api.notebook_html import html_of
from fedlearn.report.terminal import drawing, watched
from fedlearn.runs.log import Event, RunView, following

PAUSE = 0.25  # seconds between drawings; events of nodes come by the hundred


@contextmanager
def shown(events: Path) -> Iterator[None]:
    """Show the progress of the run with this event log as long as the block lasts."""
    with _in_a_cell(events) if _is_notebook() else watched(events, Console(highlight=False)):
        yield


def _is_notebook() -> bool:
    """Return whether displayed objects appear below the cell of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _in_a_cell(events: Path) -> Iterator[None]:
    """Draw into one output of the cell, again and again; the last drawing stays."""
    from IPython.display import HTML, display

    view, drawn = RunView(), time.monotonic()
    begin = events.stat().st_size if events.exists() else 0
    output: Any = display(HTML(html_of(drawing(view, time.time()))), display_id=True)

    def take(event: Event) -> None:
        nonlocal drawn
        view.take(event)
        if time.monotonic() - drawn > PAUSE:
            output.update(HTML(html_of(drawing(view, time.time()))))
            drawn = time.monotonic()

    try:
        with following(events, begin, take):
            yield
    finally:
        output.update(HTML(html_of(drawing(view, time.time()))))
