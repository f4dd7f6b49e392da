"""What dropping costs a run of few clients: a note before round 1."""

from __future__ import annotations

from fedlearn.compression import load_codec
from fedlearn.compression.drop import Drop
from fedlearn.config import RunConfig

UNSENT = 0.3  # share of the entries: a third and more cost .03 to .14 of accuracy in every measured run, an eighth .015
COST = (
    "compression.codec = {codec}: with {senders} in a round some {unsent:.0%} of the entries are sent by none, and "
    "keep their value: 1 to 10 clients that sent a tenth lost .033 to .136 of accuracy. "
)
REMEDY = "As few bytes and fewer, for .008 at most: compression.codec = eden, compression.send = update"


def cost_of_dropping(config: RunConfig) -> str:
    """Return a note where no client of a round sends three tenths of the entries or more; empty of other runs.

    Of n clients that each send a share p of the entries, drawn by themselves, none sends (1 - p)^n. Clients of one
    group of a secure sum drop the same entries, so n is the number of groups there.

    >>> cost_of_dropping(RunConfig())
    ''
    """
    stage = getattr(load_codec(config.compression), "sparsifier", None)
    if type(stage) is not Drop:
        return ""
    size = config.secure.group_size if config.sums_groups else 1
    count = max(config.goal_count // size, 1)
    unsent = (1 - stage.keep_ratio) ** count
    if unsent < UNSENT:
        return ""
    senders = f"{count} {'group' if size > 1 else 'client'}{'s' if count > 1 else ''}"
    return COST.format(codec=config.compression.codec, senders=senders, unsent=unsent) + REMEDY
