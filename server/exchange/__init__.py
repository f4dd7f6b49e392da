"""How the server reaches the nodes: it sends messages, receives replies, counts bytes, waits."""

from typing import TYPE_CHECKING

from fedlearn.plugins.moved import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of("server.exchange.exchange")
