"""A task of next letters: Python's own documentation, by author; bundled with Python, no network.

Each topic of ``pydoc_data.topics`` (the text of ``help("with")``) is an author. A paragraph that a shorter topic has,
too, is left out, so that no node is tested on a text that another node trains on. Long topics are cut into parts of
5,000 letters, an author each, and parts of fewer than 400 letters are dropped: some 120 authors, of 5 to 61 texts of 80
letters, are left. The last fifth of an author's texts is for testing. Letters are printable ASCII and the line break;
any other letter is token 0.

The text is that of the running Python: another version of Python gives other examples, and another fingerprint.

Source of the task: McMahan et al. 2017 (arXiv:1602.05629), section 3, with Shakespeare's roles as authors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.kept_arrays import dataset_at, with_facts

LENGTH = 80  # letters of one example, as in the paper
PART = 5_000  # letters of an author at most
LEAST = 400  # letters of an author at least: four texts and one for testing
TEST_EVERY = 5
LETTERS = ("\ufffd", "\n", *map(chr, range(32, 127)))


def load(data_dir: str = "") -> Dataset:
    """Return the texts; `data_dir` is not used, and is there because every data set has it."""
    from pydoc_data.topics import topics

    key = f"pydoc topics {LENGTH=} {PART=} {LEAST=} {TEST_EVERY=} {sorted(topics.items())}"
    return dataset_at("topics", "topics", key, lambda: _arrays(topics))


def _arrays(topics: dict[str, str]) -> Arrays:
    names, texts = zip(*_authors(topics), strict=True)
    windows = [_windows(text) for text in texts]
    last = [max(1, len(mine) // TEST_EVERY) for mine in windows]
    train = _examples([mine[:-tail] for mine, tail in zip(windows, last, strict=True)])
    test = _examples([mine[-tail:] for mine, tail in zip(windows, last, strict=True)])
    facts = {
        "num_classes": len(LETTERS), "vocabulary": len(LETTERS), "class_names": LETTERS, "group_names": names,
        "mean": (), "std": (),
    }  # fmt: skip
    return with_facts(train, test, facts)


def _authors(topics: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each author."""
    seen: set[str] = set()  # paragraphs of shorter topics
    own: dict[str, str] = {}
    for name in sorted(topics, key=lambda topic: (len(topics[topic]), topic)):
        paragraphs = {" ".join(each.split()): each for each in re.split(r"\n\s*\n", topics[name])}
        own[name] = "\n\n".join(text for words, text in paragraphs.items() if words not in seen)
        seen |= paragraphs.keys()
    for name, text in sorted(own.items()):
        parts = max(1, round(len(text) / PART + 0.49))
        size = -(-len(text) // parts)
        for part in range(parts):
            mine = text[part * size : (part + 1) * size]
            if len(mine) >= LEAST:
                yield (f"{name}, part {part + 1}" if parts > 1 else name), mine


def _windows(text: str) -> NDArray[np.int32]:
    """Return the tokens of a text in windows, each one letter longer than an example; shape (windows, LENGTH + 1)."""
    token = {letter: number for number, letter in enumerate(LETTERS)}
    tokens = np.array([token.get(letter, 0) for letter in text], np.int32)
    starts = np.arange(0, len(tokens) - LENGTH, LENGTH)
    windows: NDArray[np.int32] = tokens[starts[:, np.newaxis] + np.arange(LENGTH + 1)]
    return windows


def _examples(windows: list[NDArray[np.int32]]) -> Examples:
    whole = np.concatenate(windows)
    groups = np.repeat(np.arange(len(windows)), [len(mine) for mine in windows])
    return Examples(np.ascontiguousarray(whole[:, :-1]), whole[:, 1:].astype(np.int64), groups)
