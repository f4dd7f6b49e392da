"""Chats and instructions as examples of a language model: only what the assistant says is learned.

A tokenizer's chat template writes a chat with its marks. The tokens of an answer are those by which the chat up to and
with it is longer than the chat before, with the mark that opens an answer; all other places have the label -100.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.core.errors import UsageError, quoted, said
from fedlearn.data.data_spec import IGNORED
from fedlearn.data.dataset import Dataset
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.declared import TEST_SHARE

Message = Mapping[str, str]


def from_chats(
    chats: Iterable[Any],
    tokenizer: Any,
    *,
    length: int,
    chats_test: Iterable[Any] | None = None,
    groups: str | ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    name: str = "chats",
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return chats as a data set whose targets are the next tokens of the assistant's answers.

    Parameters
    ----------
    chats
        Each a list of messages ``{"role": ..., "content": ...}``; or a pair (instruction, answer); or a row with a list
        of messages under ``"messages"``, as data sets of `datasets` have.
    tokenizer
        A tokenizer of `transformers` with a chat template.
    length
        Number of tokens of an example: longer chats are cut, shorter ones are filled up.
    chats_test
        The chats for testing; without them a share is held out.
    groups, groups_test
        The group of each chat, such as its author or topic, for ``partition="natural"``; or the name of the column of
        rows that has it.
    name
        Name in messages and results.
    test_share
        Share of the chats that is held out if there are no `chats_test`.

    Raises
    ------
    UsageError
        If a chat has no such form, the template cannot write it, or no chat has an answer within `length` tokens.
    """
    train = _Encoded(chats, groups, tokenizer, length, name)
    test = None if chats_test is None else _Encoded(chats_test, _of_test(groups, groups_test), tokenizer, length, name)
    left_out = train.left_out + (test.left_out if test else 0)
    tested: dict[str, Any] = {} if test is None else {
        "X_test": test.tokens, "y_test": test.labels, "mask_test": test.mask, "groups_test": test.groups,
    }  # fmt: skip
    made = from_arrays(
        train.tokens, train.labels, mask=train.mask, groups=train.groups, name=name, vocabulary=len(tokenizer),
        classes=len(tokenizer), test_share=test_share, **tested,
    )  # fmt: skip
    if not left_out:
        return made
    why = f"{name}: {left_out} chats are left out, as none of their first {length} tokens is of an answer"
    return replace(made, notice="; ".join(filter(None, (made.notice, why))))


class _Encoded:
    """The arrays of chats, (n, length)."""

    def __init__(self, chats: Iterable[Any], groups: Any, tokenizer: Any, length: int, name: str) -> None:
        self._tokenizer, self._name = tokenizer, name
        given = list(chats)
        if isinstance(groups, str):
            if missing := [place for place, row in enumerate(given) if not _has(row, groups)]:
                raise self._wrong(missing[0], f"it has no column {groups!r}: name one by groups, or give the groups")
            groups = [row[groups] for row in given]
        elif groups is not None and len(groups := list(groups)) != len(given):
            raise UsageError(f"data set {name!r}: {len(groups)} groups of {len(given)} chats: give one for each chat")
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        if filler is None:
            raise UsageError(f"data set {name!r}: the tokenizer has no pad_token: set one, such as its eos_token")
        both = [self._tokens_and_labels(place, row) for place, row in enumerate(given)]
        kept = [place for place, (_, labels) in enumerate(both) if any(each != IGNORED for each in labels[1:length])]
        if not kept:
            raise UsageError(f"data set {name!r}: no chat has an answer within {length} tokens: give more by length")
        self.left_out = len(given) - len(kept)
        self.groups = None if groups is None else np.array([groups[place] for place in kept])
        self.tokens = np.full((len(kept), length), filler, np.int64)
        self.labels = np.full((len(kept), length), IGNORED, np.int64)
        self.mask = np.zeros((len(kept), length), np.int64)
        for row, place in enumerate(kept):
            tokens, labels = (each[:length] for each in both[place])
            self.tokens[row, : len(tokens)], self.mask[row, : len(tokens)] = tokens, 1
            self.labels[row, : len(labels) - 1] = labels[1:]  # the target of a place is the next token

    def _tokens_and_labels(self, place: int, row: Any) -> tuple[list[int], list[int]]:
        messages = self._messages(place, row)
        whole = self._written(place, messages)
        labels = [IGNORED] * len(whole)
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self._written(place, messages[:index], opens=True)
            after = self._written(place, messages[: index + 1])
            if whole[: len(after)] != after or after[: len(before)] != before:
                why = "the template writes an answer otherwise once more follows: give chats of one answer each"
                raise self._wrong(place, why)
            labels[len(before) : len(after)] = after[len(before) :]
        return whole, labels

    def _messages(self, place: int, row: Any) -> list[Message]:
        if _has(row, "messages"):
            row = row["messages"]
        if isinstance(row, tuple) and len(row) == 2 and all(isinstance(each, str) for each in row):
            row = [{"role": "user", "content": row[0]}, {"role": "assistant", "content": row[1]}]
        is_chat = isinstance(row, Sequence) and not isinstance(row, str) and len(row) > 0
        if not is_chat or not all(_has(each, "role") and _has(each, "content") for each in row):
            raise self._wrong(place, f"{quoted(row)} is no list of messages with role and content, nor a pair of texts")
        return list(row)

    def _written(self, place: int, messages: list[Message], *, opens: bool = False) -> list[int]:
        if not messages:
            return []
        try:
            found = self._tokenizer.apply_chat_template(
                messages, tokenize=True, add_generation_prompt=opens, return_dict=False
            )
        except Exception as error:  # of a template, which is code of others
            raise self._wrong(place, f"the chat template fails: {type(error).__name__}: {said(error)}") from None
        return [int(each) for each in found]

    def _wrong(self, place: int, why: str) -> UsageError:
        return UsageError(f"data set {self._name!r}: chat {place}: {why}")


def _has(row: Any, name: str) -> bool:
    return isinstance(row, Mapping) and name in row


def _of_test(groups: Any, groups_test: Any) -> Any:
    return groups if groups_test is None and isinstance(groups, str) else groups_test
