"""The mean of products of factors, which is not the product of their means.

An adapter adds s B A to a frozen weight. The scale s, alpha / r of `peft`, belongs to the module and is the same on all
nodes, so that the mean of the nodes' weights is W + s sum_i p_i B_i A_i. That sum is itself a product, of the stacks
[p_1 B_1, ..., p_n B_n] and [A_1; ...; A_n].

Source: Wang et al. 2024 (arXiv:2409.05976), FLoRA, eq. 6, for the stacks; Bai et al. 2024 (arXiv:2402.11505), FlexLoRA,
section 3.2, for the singular values.

Shapes: r rank, k rank of a stack. Products are computed in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from fedlearn.core.adapters import DOWN, UP, Pair, pairs_of
from fedlearn.extend import (
    Array,
    Collected,
    FedAvg,
    Float64,
    MaskedSum,
    Metric,
    RoundStrategy,
    Sends,
    SettingError,
    State,
    Step,
    Turn,
    UpdateKind,
    layout_of,
)

ERROR = Metric("product_error", note="of the adapters, relative to the mean of the clients' products")
RANKS = "ranks"  # the parcel by which nodes learn their ranks
Rank = Annotated[int, Field(ge=1)]


class Product(NamedTuple):
    """A product B A by its factors: `up` is B, (out, k), `down` is A, (k, in).

    >>> Product(np.array([[2.0], [0.0]]), np.array([[3.0, 4.0]])).norm
    10.0
    """

    up: Float64
    down: Float64

    @property
    def norm(self) -> float:
        """The Frobenius norm: ||B A||^2 = sum of B^T B times A A^T, entry by entry."""
        return float(np.sqrt(max(((self.up.T @ self.up) * (self.down @ self.down.T)).sum(), 0.0)))

    def refactored(self, rank: int) -> Product:
        """Return the nearest product of this rank: B = U S and A = V of the largest singular values S.

        A singular value of zero has a column and a row of zeros. Of each pair of vectors, which is unique but for its
        sign, the largest entry of the left one is above 0.
        """
        left, right, (width, length) = self.up, self.down, (len(self.up), self.down.shape[1])
        if left.shape[1] < min(width, length):  # the same of a small matrix
            (left, small), (right, other) = np.linalg.qr(self.up), np.linalg.qr(self.down.T)
            u, s, v = np.linalg.svd(small @ other.T, full_matrices=False)
            u, v = left @ u, v @ right.T
        else:
            u, s, v = np.linalg.svd(left @ right, full_matrices=False)
        kept = min(rank, int((s > s[0] * max(width, length) * np.finfo(float).eps).sum()))
        signs = np.sign(u[np.abs(u).argmax(0), np.arange(u.shape[1])])
        up, down = np.zeros((width, rank)), np.zeros((rank, length))
        up[:, :kept], down[:kept] = (u * (s * signs))[:, :kept], (v * signs[:, None])[:kept]
        return Product(up, down)


def mean_of(products: Iterable[tuple[float, Product]]) -> Product:
    """Return the mean of products, by weights that sum to 1, as one product: the stacks of FLoRA.

    >>> a, b = Product(np.ones((2, 1)), np.ones((1, 2))), Product(np.eye(2), np.eye(2))
    >>> mean = mean_of([(0.5, a), (0.5, b)])
    >>> (mean.up @ mean.down).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    weights, each = zip(*products, strict=True)
    ups = [weight * product.up for weight, product in zip(weights, each, strict=True)]
    return Product(np.hstack(ups), np.vstack([product.down for product in each]))


class Factored(RoundStrategy[Collected]):
    """Averages other parameters as `FedAvg` does, and the factors of adapters by its own rule.

    Parameters
    ----------
    down, up : str
        What the names of A and B have, where they differ; by default as `peft` names them.
    uniform
        As in `FedAvg`.
    """

    accumulator = "strategies.collected:Collected"
    accepts = frozenset({UpdateKind.DENSE})
    reads_reports = True
    metrics = (ERROR,)

    def __init__(self, *, down: str = DOWN, up: str = UP, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self.down = down
        self.up = up

    def parcels(self, state: State) -> Mapping[str, State]:
        """Send none; raise SettingError where no adapter is sent."""
        pairs_sent(state, self.down, self.up)
        return {}

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the state with the rule's factors, and their error."""
        if not turn.total.updates:
            return Step(turn.state, {ERROR.name: None})
        after = dict(averaged(turn))
        wrong = whole = 0.0
        with threadpool_limits(1):  # with more threads other bytes
            for pair in pairs_of(turn.total.layout, self.down, self.up):
                products = products_of(turn, pair)
                found = self.combined(_product(turn.state, pair), products, turn.at.round_number)
                mean = mean_of(products)
                wrong += mean_of([(1.0, mean), (-1.0, found)]).norm ** 2
                whole += mean.norm**2
                for name, factor in ((pair.up, found.up), (pair.down, found.down)):
                    like = turn.state[name]
                    after[name] = factor.astype(like.dtype).reshape(like.shape)
        return Step(after, {ERROR.name: float(np.sqrt(wrong / whole)) if whole else None})

    @abstractmethod
    def combined(self, sent: Product, products: Sequence[tuple[float, Product]], round_number: int) -> Product:
        """Return the next factors of an adapter, in the shapes of those that were sent.

        Parameters
        ----------
        sent
            The factors that nodes were sent.
        products
            Weights, of sum 1, and factors of the nodes that reported.
        """


class Ranked(Factored):
    """A rule whose nodes train adapters of their own ranks.

    Parameters
    ----------
    ranks : list of int
        Rank of each node's adapters: of node i the entry i modulo their number.
    down, up, uniform
        As in `Factored`.
    """

    def __init__(self, *, ranks: Sequence[int], down: str, up: str, uniform: bool) -> None:
        super().__init__(down=down, up=up, uniform=uniform)
        self.ranks = tuple(ranks)

    def parcels(self, state: State) -> Mapping[str, State]:
        """Tell nodes the ranks; raise SettingError where the module's adapters are too small for them."""
        for pair in pairs_sent(state, self.down, self.up):
            if self.ranks and max(self.ranks) > (most := self.most(pair.rank)):
                why = f"{pair.down} has rank {pair.rank}, which leaves clients at most {most}: give the module's more"
                raise SettingError("strategy.options.ranks", max(self.ranks), why)
        return {RANKS: {RANKS: np.array(self.ranks, np.int64)}} if self.ranks else {}

    def most(self, rank: int) -> int:
        """Return the largest rank that a node can have, of adapters of this rank."""
        return rank


def pairs_sent(state: State, down: str, up: str) -> list[Pair]:
    """Return the pairs of factors of a state; raise SettingError where there is none."""
    if pairs := pairs_of(layout_of(state), down, up):
        return pairs
    why = (
        f"no sent parameter is named {down!r} beside one named {up!r}, as the adapters of peft are: train adapters, or "
        "give the names of yours by strategy.options.down and strategy.options.up"
    )
    raise SettingError("strategy.options.down", down, why)


def check_unsent(state: State, word: str, setting: str, why: str) -> None:
    """Raise SettingError where a factor is sent that an algorithm does not average."""
    if found := [name for name in state if {word, word.replace("lora_", "lora_embedding_")} & {*name.split(".")}]:
        raise SettingError(setting, found[0], why)


def averaged(turn: Turn[Collected]) -> State:
    """Return the state that `FedAvg` makes of collected updates."""
    total = MaskedSum.empty(turn.total.layout)
    total.add(turn.total.updates)
    return FedAvg().next_state(replace(turn, total=total)).state  # type: ignore[arg-type]


def products_of(turn: Turn[Collected], pair: Pair) -> list[tuple[float, Product]]:
    """Return the factors of each node that reported, and its share of the weight."""
    whole = sum(weight for weight, _ in turn.total.updates)
    found = []
    for weight, update in turn.total.updates:
        sent: dict[str, Array] = {}
        for name in (pair.down, pair.up):
            values = update[name].dense(turn.total.layout[name]).astype(np.float64)
            sent[name] = values + turn.state[name] if turn.sends is Sends.UPDATE else values
        found.append((weight / whole, _product(sent, pair)))
    return found


def _product(state: State, pair: Pair) -> Product:
    """Return the factors of a pair as matrices, in float64; those of a convolution have more axes."""
    up, down = (state[name].astype(np.float64) for name in (pair.up, pair.down))
    return Product(up.reshape(len(up), -1), down.reshape(pair.rank, -1))
