"""Schedules without rounds in step: reports arrive while others train, and are weighed by their staleness."""

from typing import TYPE_CHECKING

from fedlearn.plugins.moved import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of("server.schedules.asynchronous.schedule")
