"""The answers of a client's code that a server asks for before round 1."""

from __future__ import annotations

from dataclasses import dataclass

CLASS, LABEL, TENTH, EXAMPLE = "class", "label", "tenth of the target", "example"
"""Words for the rows of `Dealt`: named classes, numbered ones, tenths of a number, examples without a label."""

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
class Dealt:
    """The numbers of training examples of each label on each node of a simulation; no example, and no bound of one.

    Parameters
    ----------
    nodes
        Number of nodes of the run, at least as many as are counted.
    what
        What a label is: `CLASS`, `LABEL`, `TENTH` or `EXAMPLE`.
    counts
        A row for each label, in it a number for each node from node 0 on: examples that the node trains on.
    """

    nodes: int
    what: str
    counts: tuple[tuple[int, ...], ...]


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
    dealt
        Who has which data; None where nodes keep it to themselves, as with a private model.
    """

    notes: tuple[str, ...] = ()
    why_not_stacked: str = ""
    dealt: Dealt | None = None
