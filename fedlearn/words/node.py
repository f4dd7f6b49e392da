"""The answers of a client's code that a server asks for before round 1."""

from __future__ import annotations

from dataclasses import dataclass

LACKS = "lacks-unsent-arrays"
"""The word of a node whose model has other frozen arrays than the server's; it is sent them, once."""


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """The traits of a run's nodes that a server must know.

    Parameters
    ----------
    is_private
        Whether a privacy budget limits what nodes publish of their examples.
    """

    is_private: bool


@dataclass(frozen=True, slots=True)
class NodeTrial:
    """The result of a trial of the learner.

    Parameters
    ----------
    notes
        Warnings, a line each: nodes without examples; attributes that a module, loss or learner keeps beside the state
        and that would change the next fit.
    why_not_stacked
        Why nodes are trained one by one although ``training.stack`` asks for more; empty if they are trained together.
    """

    notes: tuple[str, ...] = ()
    why_not_stacked: str = ""
