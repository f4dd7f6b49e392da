"""Chats as examples of a language model: which tokens are learned, groups, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import UsageError
from fedlearn.data import from_chats, partition_table
from fedlearn.data.data_spec import IGNORED

WORDS = ["<pad>", "<user>", "<assistant>", "<end>", *"abcdefgh"]
CHAT = [
    {"role": "user", "content": "a b"},
    {"role": "assistant", "content": "c"},
    {"role": "user", "content": "d"},
    {"role": "assistant", "content": "e f"},
]
WHOLE = ["<user>", "a", "b", "<end>", "<assistant>", "c", "<end>", "<user>", "d", "<end>", "<assistant>", "e", "f",
         "<end>"]  # fmt: skip
LEARNED = [5, 6, 11, 12, 13]  # places of the answers' tokens


class Tokenizer:
    """A tokenizer of words with a template of marks, called as one of `transformers` is."""

    pad_token_id, eos_token_id = 0, 3

    def __len__(self):
        return len(WORDS)

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt, return_dict):
        assert tokenize and not return_dict
        if any(message["role"] not in ("user", "assistant") for message in messages):
            raise ValueError("only user and assistant")
        words = [w for m in messages for w in (f"<{m['role']}>", *m["content"].split(), "<end>")]
        return [WORDS.index(word) for word in words + ["<assistant>"] * add_generation_prompt]


class Forgetful(Tokenizer):
    """Leaves all answers but the last one empty, as templates of models that think aloud do."""

    def apply_chat_template(self, messages, **options):
        last = len(messages) - 1
        kept = [
            {**m, "content": ""} if m["role"] == "assistant" and place < last else m for place, m in enumerate(messages)
        ]
        return super().apply_chat_template(kept, **options)


def made(chats, *, length=16, tokenizer=None, **about):
    about = {"chats_test": chats, **about}
    return from_chats(chats, tokenizer or Tokenizer(), length=length, **about)


def test_only_answers_are_learned_each_as_the_next_token():
    found = made([CHAT]).train
    tokens, labels = np.asarray(found.inputs)[0], np.asarray(found.targets)[0]
    assert tokens.tolist() == [WORDS.index(word) for word in WHOLE] + [-1, -1]  # hidden padding
    wanted = np.full(16, IGNORED)
    for place in LEARNED:
        wanted[place - 1] = WORDS.index(WHOLE[place])
    assert labels.tolist() == wanted.tolist()


def test_a_pair_and_a_row_are_the_same_chat():
    pair, messages = ("a b", "c"), CHAT[:2]
    all_alike = [made([each]).train for each in (pair, messages, {"messages": messages, "author": "x"})]
    for other in all_alike[1:]:
        assert np.array_equal(other.inputs, all_alike[0].inputs)
        assert np.array_equal(other.targets, all_alike[0].targets)


def test_chats_are_split_by_a_column_or_by_given_groups():
    rows = [{"messages": CHAT, "topic": topic} for topic in ("x", "y", "x")]
    by_column = made(rows, groups="topic")
    given = made([CHAT] * 3, groups=["x", "y", "x"], groups_test=["x", "y", "x"])
    for each in (by_column, given):
        assert each.group_names == ("x", "y")
        table = partition_table(each, DataSettings(partition="natural"), num_partitions=2, seed=1)
        assert [sorted(table.indices(client).tolist()) for client in range(2)] == [[0, 2], [1]]


def test_chats_without_an_answer_in_time_are_left_out_and_said():
    late = [{"role": "user", "content": "a b c d e f g h"}, CHAT[1]]
    found = made([CHAT, late, CHAT], length=8, groups=[7, 8, 9], groups_test=[7, 8, 9])
    assert len(found.train) == 2
    assert "2 chats are left out" in found.notice
    with pytest.raises(UsageError, match="no chat has an answer within 3 tokens"):
        made([CHAT], length=3)


@pytest.mark.parametrize(
    ("chats", "about", "word"),
    [
        (["a b"], {}, "chat 0: 'a b' is no list of messages"),
        ([CHAT, [{"role": "user"}]], {}, "chat 1"),
        ([[]], {}, "chat 0"),
        ([[{"role": "system", "content": "a"}, *CHAT]], {}, "the chat template fails: ValueError: only user"),
        ([CHAT], {"groups": "author"}, "no column 'author'"),
        ([CHAT], {"groups": [1, 2]}, "2 groups of 1 chats"),
        ([CHAT], {"tokenizer": Forgetful()}, "give chats of one answer each"),
    ],
)
def test_what_is_no_chat_is_refused(chats, about, word):
    with pytest.raises(UsageError, match=word):
        made(chats, chats_test=None, **about)


def test_a_tokenizer_without_padding_is_refused():
    bare = Tokenizer()
    bare.pad_token_id = bare.eos_token_id = None
    with pytest.raises(UsageError, match="no pad_token"):
        made([CHAT], tokenizer=bare)
