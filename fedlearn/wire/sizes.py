"""Sizes of messages: the lengths of their serialised records, in bytes, as they cross the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flwr.app import Message

from fedlearn import flower


def bytes_of(content: Mapping[str, flower.Record]) -> int:
    """Return the size of a message's serialised records, in bytes, as they cross the network."""
    return sum(flower.size_in_bytes(key, record) for key, record in content.items())


def bytes_of_all(messages: Sequence[Message]) -> int:
    """Return the size of many messages together, in bytes."""
    return sum(bytes_of_each(messages))


def bytes_of_each(messages: Sequence[Message]) -> list[int]:
    """Return the size of each message, in bytes; a record that several messages share is measured once."""
    if len(messages) == 1:
        return [bytes_of(messages[0].content)]
    sizes: dict[tuple[str, int], int] = {}
    for message in messages:
        for key, record in message.content.items():
            known = (key, id(record))
            if known not in sizes:
                sizes[known] = flower.size_in_bytes(key, record)
    return [sum(sizes[key, id(record)] for key, record in message.content.items()) for message in messages]
