"""What every report must pass before it is added up: forms, lengths, norms."""

from typing import TYPE_CHECKING

from fedlearn.plugins.moved import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of("server.gate.gate")
