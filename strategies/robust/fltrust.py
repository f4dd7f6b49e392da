"""FLTrust: nodes count by how far they go the way that the server's own training goes.

Source: Cao et al. 2021, "FLTrust: Byzantine-robust federated learning via trust bootstrapping" (arXiv:2012.13995),
eqs. 2 to 4.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.core.errors import UsageError
from fedlearn.core.state import Sends, dense_update, difference
from strategies.base import Step, Turn
from strategies.collected import Collected
from strategies.masked_mean import Float64
from strategies.robust.columns import WeightedMean
from strategies.robust.defence import Attackers, Defence, by_columns
from strategies.robust.geometry import Changes


def trusted(gram: Float64) -> tuple[Float64, Float64]:
    """Return the trust in each node, max(cosine, 0), and the factor that makes its change as long as the server's.

    Parameters
    ----------
    gram
        Inner products of the nodes' changes, and last of the server's own: shape (nodes + 1, nodes + 1).

    Examples
    --------
    >>> trusted(np.array([[4.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, -1.0, 1.0]]))
    (array([1., 0.]), array([0.5, 1. ]))
    """
    lengths = np.sqrt(np.diag(gram))
    factors = np.divide(lengths[-1], lengths[:-1], out=np.zeros(len(gram) - 1), where=lengths[:-1] > 0)
    products = np.maximum(gram[:-1, -1], 0.0)
    scale = lengths[:-1] * lengths[-1]
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 0), factors


class FLTrust(Defence):
    """The mean of changes that are made as long as the server's own, weighed by their cosine with it, from 0.

    The server trains on root examples of its own in every round, as a node does; it stands any number of attackers, as
    far as its examples are like the nodes'. A round in which it trusts no node leaves the state as it is.

    Parameters
    ----------
    attackers : int, default=0
        Makes no difference: no number of attackers is assumed.
    root : int, default=100
        How many root examples the server has, from its own training set.
    uniform : bool, default=False
        Makes no difference: nodes count by their cosine.

    References
    ----------
    Cao et al. 2021, "FLTrust: Byzantine-robust federated learning via trust bootstrapping" (arXiv:2012.13995),
    algorithm 2.
    """

    needs = (0, 1)
    takes_groups = False
    reads_reports = True  # and what the server has learned itself

    def __init__(
        self, *, attackers: Attackers = 0, root: Annotated[int, Field(ge=1)] = 100, uniform: bool = False
    ) -> None:
        super().__init__(attackers=attackers, uniform=uniform)
        self.root_examples = root

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the state after the trusted mean; what is no number with a fraction stays as it is."""
        if not turn.root:
            raise UsageError("strategy.name = 'fltrust' needs the rounds of fedlearn's server, which trains itself")
        updates = [update for _, update in turn.total.updates]
        if not updates:
            return Step(turn.state)
        own = turn.root
        if turn.sends is Sends.UPDATE:
            own = {name: difference(array, turn.state[name]) for name, array in own.items()}
        changes = Changes(turn.state, updates, turn.sends)
        trust, factors = trusted(Changes(turn.state, [*updates, dense_update(own)], turn.sends).gram())
        mean = WeightedMean(trust)
        state = by_columns(changes, lambda values: mean(values * factors[:, np.newaxis]))
        kept = {name: array for name, array in turn.state.items() if array.dtype.kind != "f"}
        return Step({**state, **kept}, left_out=np.flatnonzero(trust == 0).tolist())

    def after(self, changes: Changes) -> Step:
        """Leave the state as it is: without the server's own change there is no trust."""
        return Step(changes.state)
