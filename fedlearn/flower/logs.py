"""Flower's log lines, which Flower by itself prints in color, beside the lines of other loggers."""

from __future__ import annotations

import logging
import os
import sys

from flwr.supercore.logger import FLOWER_LOGGER, ConsoleHandler, update_console_handler

LEVEL = "FLWR_LOG_LEVEL"  # Flower's own variable


def log_as_we_do() -> None:
    """Log Flower's warnings as fedlearn's own, once and without color; FLWR_LOG_LEVEL sets another level.

    Flower's strategies log of each round what the event log has, too.
    """
    for handler in [each for each in FLOWER_LOGGER.handlers if isinstance(each, ConsoleHandler)]:
        FLOWER_LOGGER.removeHandler(handler)
    asked = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "").upper())
    FLOWER_LOGGER.setLevel(logging.WARNING if asked is None else asked)


def log_by_itself() -> None:
    """Let Flower print its own lines, for a foreign app; in color only in a terminal."""
    FLOWER_LOGGER.propagate = False
    update_console_handler(colored=sys.stderr.isatty() and "NO_COLOR" not in os.environ)
