"""What Flower logs, and where: by itself it prints every line in colour, beside whoever logs here."""

from __future__ import annotations

import logging
import os
import sys

from flwr.supercore.logger import FLOWER_LOGGER, ConsoleHandler, update_console_handler

LEVEL = "FLWR_LOG_LEVEL"  # Flower's own variable


def log_as_we_do() -> None:
    """Let warnings of Flower go the way of ours, once and without colour; FLWR_LOG_LEVEL asks for more or less.

    Its strategies tell of each round what the event log tells, too.
    """
    for handler in [each for each in FLOWER_LOGGER.handlers if isinstance(each, ConsoleHandler)]:
        FLOWER_LOGGER.removeHandler(handler)
    asked = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "").upper())
    FLOWER_LOGGER.setLevel(logging.WARNING if asked is None else asked)


def log_by_itself() -> None:
    """Let Flower print its own lines, as an app of somebody else's has them; in colour in a terminal alone."""
    FLOWER_LOGGER.propagate = False
    update_console_handler(colored=sys.stderr.isatty() and "NO_COLOR" not in os.environ)
