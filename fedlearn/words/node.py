"""What a server learns of the nodes of a simulation before round 1."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """What a server needs to know of the nodes of a run.

    Parameters
    ----------
    is_private
        Whether nodes say no more of their examples than a budget pays for.
    """

    is_private: bool


@dataclass(frozen=True, slots=True)
class NodeTrial:
    """What came of a trial of the learner.

    Parameters
    ----------
    notes
        What is likely not meant, a line each: what module, loss or learner keep beside the state where that would
        change the next fit; nodes without examples.
    why_not_stacked
        Why nodes are trained one by one where ``training.stack`` asks for more; empty where they are not.
    """

    notes: tuple[str, ...] = ()
    why_not_stacked: str = ""
