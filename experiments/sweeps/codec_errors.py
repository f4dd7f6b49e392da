"""Compare the errors of codecs with their theory, and a residual with EF21 where the optimum is known.

    python -m experiments.sweeps.codec_errors

The error of a codec C on a vector x is E|C(x) - x|^2 / |x|^2. The vectors have independent entries: standard normal,
or log-normal with random signs, whose tails are heavy. What theory says follows from the distribution, or, where codes
are rounded at random between the vector's own extremes, from the vector and the rule of rounding.

Sources: EDEN's D / (1 - D), Vargaftik et al. 2022 (arXiv:2108.08842); D of Max 1960, table I; EF21, Richtarik et al.
2021 (arXiv:2106.05203), algorithm 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import e, exp, log2, pi, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fedlearn.compression import load_codec
from fedlearn.compression.codec import Codec
from fedlearn.compression.residual import encode_with_residual
from fedlearn.compression.rotate import rotated, shapes_of
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State, layout_of
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically

Vector = NDArray[np.float32]
MAX = {1: 0.363380, 2: 0.117482, 3: 0.034548, 4: 0.009501}
"""Bits -> the error D of the best levels of a standard normal (Max 1960)."""


@dataclass(frozen=True, slots=True)
class Entries:
    """A distribution of entries with a mean of zero.

    Parameters
    ----------
    draw
        Returns this many entries.
    kept
        Returns the share of the energy in the largest entries, of which this share is kept.
    magnitude
        Returns the mean magnitude, over all entries, of the largest, others as zero; by that share.
    energy
        The mean square.
    """

    draw: Callable[[np.random.Generator, int], Vector]
    kept: Callable[[float], float]
    magnitude: Callable[[float], float]
    energy: float


def _normal_above(share: float) -> float:
    return float(norm.isf(share / 2))


NORMAL = Entries(
    draw=lambda rng, size: rng.standard_normal(size, np.float32),
    kept=lambda share: share + 2 * (t := _normal_above(share)) * float(norm.pdf(t)) if share < 1 else 1.0,
    magnitude=lambda share: 2 * float(norm.pdf(_normal_above(share))),
    energy=1.0,
)
HEAVY = Entries(
    draw=lambda rng, size: (np.exp(rng.standard_normal(size)) * rng.choice((-1, 1), size)).astype(np.float32),
    kept=lambda share: float(norm.cdf(2 - norm.isf(share))),
    magnitude=lambda share: sqrt(e) * float(norm.cdf(1 - norm.isf(share))),
    energy=exp(2),
)
VECTORS = {"normal": NORMAL, "log-normal": HEAVY}


def of_eden(bits: int) -> float:
    """Return the error of unbiased levels after a rotation, whatever the vector."""
    return MAX[bits] / (1 - MAX[bits])


def of_steps(vector: Vector, bits: int, seed: int | None = None) -> float:
    """Return the expected error of rounding at random to the two next steps between the extremes of each segment.

    Parameters
    ----------
    seed
        Of a codec that rotates the vector first: segments are then chunks of blocks. None: the whole vector is one.
    """
    values, lengths = vector, [len(vector)]
    if seed is not None:
        values = rotated(vector, seed_for(seed, purpose="transform/float32"))
        lengths = [rows * columns for rows, columns in shapes_of(len(vector))]
    square, start = 0.0, 0
    for length in lengths:
        part = values[start : start + length].astype(np.float64)
        step = (part.max() - part.min()) / (2**bits - 1)
        fraction = ((part - part.min()) / step) % 1
        square += float((fraction * (1 - fraction)).sum()) * step**2
        start += length
    return square / float((vector.astype(np.float64) ** 2).sum())


def of_halves(vector: Vector) -> float:
    """Return the expected error of 11 significant bits: a twelfth of the square of the last place."""
    place = 2.0 ** (np.floor(np.log2(np.abs(vector[vector != 0]).astype(np.float64))) - 10)
    return float((place**2).sum() / 12 / (vector.astype(np.float64) ** 2).sum())


@dataclass(frozen=True, slots=True)
class Coded:
    """A vector, the distribution of its entries, and the seed of its codec: what theory may depend on."""

    vector: Vector
    of: Entries
    seed: int


Theory = Callable[[Coded], float]


def _of_eden(bits: int) -> Theory:
    return lambda _: of_eden(bits)


def _of_steps(bits: int, *, turned: bool) -> Theory:
    return lambda each: of_steps(each.vector, bits, each.seed if turned else None)


P = 0.1  # share of the entries in the cases below
CASES: Mapping[str, Theory] = {
    "identity": lambda _: 0.0,
    "entropy": lambda _: 0.0,
    "fp16": lambda each: of_halves(each.vector),
    **{f"eden:{bits}": _of_eden(bits) for bits in MAX},
    **{f"quantize:{bits}": _of_steps(bits, turned=False) for bits in (1, 4, 8)},
    **{f"rotate,quantize:{bits}": _of_steps(bits, turned=True) for bits in (1, 2, 4, 8)},
    f"drop:{P}": lambda _: 1 - P,
    f"rand-k:{P}": lambda _: 1 / P - 1,
    f"top-k:{P}": lambda each: 1 - each.of.kept(P),
    "sign": lambda each: 1 - each.of.magnitude(1) ** 2 / each.of.energy,
    f"ternary:{P}": lambda each: 1 - each.of.magnitude(P) ** 2 / P / each.of.energy,
    f"rand-k:{P},eden": lambda _: pi / 2 / P - 1,
    f"drop:{P},eden": lambda _: 1 - P + P * of_eden(1),
    f"top-k:{P},eden:2": lambda each: 1 - each.of.kept(P) * (1 - of_eden(2)),
}
"""Chain -> its error in theory; of null entries, which `drop` leaves out, as zeros."""


def decoded(codec: Codec, vector: Vector, seed: int) -> Vector:
    """Return what is decoded of a coded vector; zero for null entries."""
    state: State = {"x": vector}
    sent = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)["x"]
    if sent.positions is None:
        return sent.values
    found = np.zeros_like(vector)
    found[sent.positions] = sent.values
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured of one codec on one kind of vector.

    Parameters
    ----------
    error, theory
        The mean over draws of the error, and what theory says of it.
    along
        The mean of <C(x), x> / |x|^2: one where C is unbiased.
    """

    error: float
    theory: float
    along: float

    @property
    def off(self) -> float:
        """The distance of the error from theory, as a share of the latter."""
        return self.error / self.theory - 1 if self.theory else self.error


def measured(chain: str, of: Entries, *, size: int, draws: int) -> Found:
    """Return errors and lengths of a codec, over vectors of this size, each with a seed of its own."""
    codec = load_codec(CompressionSettings(codec=chain, send="update"))
    rows = []
    for draw in range(draws):
        vector = of.draw(np.random.default_rng(draw), size)
        wide, came = vector.astype(np.float64), decoded(codec, vector, draw).astype(np.float64)
        square = wide @ wide
        rows.append((((came - wide) ** 2).sum() / square, CASES[chain](Coded(vector, of, draw)), came @ wide / square))
    error, theory, along = np.array(rows, np.float64).mean(axis=0)
    return Found(float(error), float(theory), float(along))


def is_linear(chain: str) -> bool:
    """Return whether a sum of coded vectors, with the same seed, decodes as the sum of the decoded ones."""
    codec = load_codec(CompressionSettings(codec=chain, send="update"))
    one, two = (np.random.default_rng(seed).standard_normal(4096, np.float32) for seed in (1, 2))
    together = decoded(codec, one + two, 3)
    return bool(np.allclose(together, decoded(codec, one, 3) + decoded(codec, two, 3), atol=1e-5))


# --- two nodes of which each knows one coordinate better ----------------------------------------------------------

SLOPES = np.array([[1.0, 3.0], [3.0, 1.0]], np.float32)  # a of f_i(x) = a_i . (x - t_i)^2 / 2
TARGETS = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
RATE = np.float32(0.1)
TOP_1 = "top-k:0.5"  # of two entries


def ends(kind: str, rounds: int = 400) -> list[tuple[float, float]]:
    """Return the last points of gradient descent on the mean of f_1 and f_2, the optimum of which is (0.25, 0.25).

    Parameters
    ----------
    kind
        "plain", "top-1", "residual" (a node adds to its step what it has not sent) or "ef21" (a node sends the change
        of its gradient, and the server adds it to what it has of that node).
    """
    codec = load_codec(CompressionSettings(codec=TOP_1, send="update"))
    x, points = np.zeros(2, np.float32), []
    owed: list[State] = [{}, {}]
    known = np.zeros((2, 2), np.float32)
    for number in range(rounds):
        gradients = SLOPES * (x - TARGETS)
        steps = -RATE * gradients
        for node in range(2):
            seed = seed_for(1, purpose="two nodes", round_number=number, node=node)
            if kind == "top-1":
                steps[node] = decoded(codec, steps[node], seed)
            elif kind == "residual":
                payload, owed[node] = encode_with_residual(codec, {"x": steps[node]}, owed[node], seed=seed)
                layout = layout_of({"x": steps[node]})
                steps[node] = codec.decode(payload, layout=layout, seed=seed)["x"].dense(layout["x"])
            elif kind == "ef21":
                known[node] += decoded(codec, gradients[node] - known[node], seed)
                steps[node] = -RATE * known[node]
        x = x + steps.mean(axis=0, dtype=np.float32)
        points.append((float(x[0]), float(x[1])))
    return points[-8:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of errors and where the two nodes end; write errors.md."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.sweeps.codec_errors", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--size", type=lambda text: 1 << int(log2(int(text))), default=1 << 20, help="entries, 2^n")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/codec_errors"))
    options = parser.parse_args(arguments)
    rows = [_row(chain, size=options.size, draws=options.draws) for chain in CASES]
    heads = [
        "codec",
        *(f"{kind}: {head}" for kind in VECTORS for head in ("measured", "theory", "off")),
        "along",
        "linear",
    ]
    table = Table.of_texts("errors", "Errors of codecs: measured, in theory, relative difference", heads, rows, words=1)
    table.show()
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "errors.md", table.as_markdown().encode())
    print("\ntwo nodes, optimum (0.25, 0.25), the largest of two entries sent; the points of the last rounds:")
    for kind in ("plain", "top-1", "residual", "ef21"):
        points = {tuple(round(each, 5) for each in point) for point in ends(kind)}
        print(f"{kind:9}", " ".join(map(str, sorted(points))))


def _row(chain: str, *, size: int, draws: int) -> list[str]:
    found = [measured(chain, of, size=size, draws=draws) for of in VECTORS.values()]
    texts = [text for each in found for text in (f"{each.error:.4g}", f"{each.theory:.4g}", f"{each.off:+.2%}")]
    return [f"`{chain}`", *texts, f"{found[0].along:.3f}", "yes" if is_linear(chain) else "no"]


if __name__ == "__main__":
    main()
