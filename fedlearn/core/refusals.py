"""The words by which a node refuses a message: what each means, and what the user of the server can do.

A node on a network sends one of these words and nothing else. Each but `NOT_READY` depends on settings of the run and
limits of the node's owner that never change with the data, so a server may learn these limits. All that depends on
data, budgets, counts, hours or failures is `NOT_READY`; the reason stands in the log of the node, for its owner.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fedlearn.core.client_facts import LACKS

NOT_READY = "not-ready"
WORD = re.compile(r"[a-z]+(-[a-z]+){0,5}")


class Refusal(NamedTuple):
    """A word's meaning, and what the user of the server can do."""

    means: str
    do: str


REFUSALS = {
    "app-not-allowed": Refusal(
        "the server sends another app than the one installed on the client",
        "install the same version of fedlearn on both",
    ),
    "bins-not-declared": Refusal(
        "exact sums in other bins than the owner has declared; sums on several grids would reveal single values",
        "leave out model.options.bins, or ask the owner (--bins)",
    ),
    "code-not-allowed": Refusal(
        "a setting or the message names code outside of fedlearn's tables, or a codec with a private model",
        "use names that fedlearn settings lists, and no codec with a private model",
    ),
    "group-not-allowed": Refusal(
        "exact sums, by groups of a column that the owner does not allow for groups",
        "leave out model.options.by and model.options.strata, or ask the owner (--groups)",
    ),
    LACKS: Refusal(
        "the client's copy of the model has other frozen arrays than the server's",
        "nothing: the server sends its frozen arrays once; if the word comes again, read the server's log",
    ),
    "model-not-allowed": Refusal(
        "the owner does not allow this model", "choose another model.name, or ask the owner for this one (--models)"
    ),
    "no-memory-folder": Refusal(
        "secure.sums, training.personal or privacy.separation needs a memory, and the client has no folder for it",
        "ask the owner to start it with --memory FOLDER, or leave these settings out",
    ),
    "noise-not-secure": Refusal("the noise would be seeded, which gives no privacy", 'set privacy.noise = "secure"'),
    "private-model": Refusal(
        "the model is private, and no budget pays for measuring it on a client", "set evaluation.nodes = 0"
    ),
    "rows-chosen": Refusal(
        "exact sums, and settings would choose rows or cut a client's sum",
        "leave out data.node_test_share, data.options and gate.max_examples",
    ),
    "sets-not-remembered": Refusal(
        "exact sums, and the client lists no peers or has no ledger to remember their sets of clients",
        'set model.name = "dp-statistics", or ask the owner to start it with --peers and --ledger',
    ),
    "sizes-not-public": Refusal("the number of records would be published", "set privacy.public_sizes = false"),
    "sums-not-masked": Refusal(
        "the owner lists peers, and allows only secure aggregation with them",
        'set secure.sums = "masked", and evaluation.where = "server"',
    ),
    "tells-of-one": Refusal(
        "the client has answered this question with other clients; both sums together may reveal one client's numbers",
        "ask the same clients; if one has left for good, its owner can release its sums (fedlearn keys --release)",
    ),
    "trust-not-allowed": Refusal(
        "the client would add only a share of the noise, which by itself gives no privacy",
        'set privacy.trust = "local", or secure.sums = "masked" among clients that list their peers',
    ),
    NOT_READY: Refusal(
        "the client does not take part at the moment; only its log says why",
        "try again later, or ask the owner",
    ),
}
"""Word -> meaning. docs/howto/deployment_owner.md has this table."""


def word_for(reason: str) -> str:
    """Return the word that a node sends for a reason: a word of `REFUSALS`, or `NOT_READY`.

    >>> word_for("code-not-allowed"), word_for("budget-spent"), word_for("it has no examples"), word_for("")
    ('code-not-allowed', 'not-ready', 'not-ready', '')
    """
    return reason if reason in REFUSALS or not reason else NOT_READY


def known(word: str) -> str:
    """Return a word that a node has sent, if this version knows it; else a text that says so.

    >>> known("not-ready"), known("too-late"), known("our 12 patients")
    ('not-ready', "it says 'too-late', which this version of fedlearn does not know", 'it says what is no word')
    """
    if word in REFUSALS or not word:
        return word
    if WORD.fullmatch(word):
        return f"it says '{word}', which this version of fedlearn does not know"
    return "it says what is no word"


def explained(reason: str) -> str:
    """Return a reason; a word is followed by its meaning and by what can be done.

    >>> explained("noise-not-secure")
    'noise-not-secure: the noise would be seeded, which gives no privacy; set privacy.noise = "secure"'
    """
    refusal = REFUSALS.get(reason)
    return f"{reason}: {refusal.means}; {refusal.do}" if refusal else reason
