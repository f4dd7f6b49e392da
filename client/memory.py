"""What one node keeps from message to message: texts, as accounts, and named groups of arrays, as residuals."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedlearn.state import State


@dataclass(slots=True)
class NodeMemory:
    """A node's memory; learners and mods change it in place.

    Parameters
    ----------
    texts
        Name -> text, as ``{"account": "{...}"}``.
    arrays
        Name -> named arrays, as ``{"residual": {"fc1.weight": ...}}``.
    """

    texts: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, State] = field(default_factory=dict)
