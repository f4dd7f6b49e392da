"""The laws: a problem each, on which a class must walk as its algorithm does, and what a failure usually means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedlearn.algorithms.conformance.adapter_problem import LowRank
from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.scalar_problem import Scalars
from fedlearn.algorithms.conformance.walks import WALKS, Walk

TOLERANCE = 1e-5  # of a number, relative above 1: float32 holds a walk of some hundred steps to 1e-6
ALIKE = 1e-3  # a failing walk that is so near one with a known mistake has it
FAR = 1e3  # a number beyond is on its way to infinity; all targets are at most 10

OF_PRODUCTS = {
    "mean of factors": "A and B are averaged apart: the product of the means is not the mean of the products",
    "transposed": "the singular vectors are those of the transposed product: A gets the left ones, B the right ones",
    "alpha / r": "alpha / r is taken by each client's own rank: the scale is the module's, the same on all clients",
}
"""Known mistakes of rules that average products of adapters."""

BASES: dict[str, Problem | LowRank] = {
    "fedit": LowRank(), "ffa-lora": LowRank(), "fedsa-lora": LowRank(), "flexlora": LowRank(),
    "flora": LowRank(rank=9, ranks=(4,)), "decomfl": Scalars(),
    "fedprox": Problem(pull=1.0), "feddyn": Problem(pull=1.0), "qfedavg": Problem(steps=(1, 1)),
    **dict.fromkeys(("fedper", "lgfedavg", "fedrep", "fedbabu", "fedala"), Problem(is_layered=True)),
}  # fmt: skip
"""Algorithm -> the problem of its laws, where it is not the default one."""

LAWS: dict[str, dict[str, object]] = {
    "walk": {},
    "unequal steps": {"steps": (2, 10)},
    "momentum": {"momentum": 0.9},
    "weak pull": {"pull": 0.1, "steps": (50, 50), "rounds": 20},
    "optimum": {"rounds": 60},
    "optimum, exact steps": {"rounds": 60, "steps": (100, 100)},
    "optimum, unequal sizes": {"rounds": 60, "steps": (2, 10), "by_examples": True},
    "one node": {"a": (3.0,), "t": (10.0,), "steps": (5,)},
    "nodes alike": {"a": (3.0, 3.0), "t": (10.0, 10.0)},
    "ranks": {"ranks": (1, 2, 3, 2)},
    "other weights": {"steps": (2, 10), "by_examples": True},
    "under masks": {
        "a": (1.0, 3.0, 2.0, 5.0),
        "t": (0.0, 10.0, 4.0, -2.0),
        "steps": (2, 10, 4, 6),
        "by_examples": True,
        "options": {"secure.sums": "masked", "secure.dropouts": 0.0},
    },
}
"""Law -> what differs in its problem from that of the algorithm."""

OFF: dict[str, dict[str, object]] = {
    "moon": {"training.options.mu": 0.0}, "fedsam": {"training.options.rho": 0.0},
    "qfedavg": {"training.options.q": 0.0}, "ditto": {"training.options.pull": 0.0},
}  # fmt: skip
"""Algorithm -> the settings with which it is FedAvg."""

MISTAKES = {
    "scaffold": {
        "reversed": "the sign of the control variate is reversed: c_i is kept as minus the mean gradient",
        "not stored": "c_i is never stored: it ends where FedAvg ends",
        "other weights": "control variates are averaged with other weights than states, so that corrections add up",
        "divided by K lr": "c_i is (x - y)/(K lr), which is no mean gradient with momentum: average the raw gradients",
    },
    "fednova": {"weights": "the weights tau_eff p_i / a_i do not sum to 1, but models are averaged by them: apply them "
                "to the changes x - y_i"},
    "feddyn": {
        "mixed signs": "the paper's sign is mixed with the authors' code: the kept change is alpha (x - y), but is "
        "added to the gradient",
        "no alpha y": "the pull lacks its half alpha y, and pulls by -alpha x alone",
    },
    "ditto": {"begins anew": "the client's own model begins each round at the common one, instead of where it was"},
    "flexlora": OF_PRODUCTS, "flora": OF_PRODUCTS,
    "decomfl": {
        "by clients": "each client weighs one: derivatives are averaged by other weights than the examples",
        "summed": "the steps along all directions are added up: each is lr / K times its derivative",
        "first weights": "derivatives are measured at the first weights: the history is not walked",
    },
}  # fmt: skip
"""Algorithm -> known mistakes: the word of its walk, and what it means."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one law.

    Parameters
    ----------
    law
        Its name.
    holds
        Whether it holds.
    why
        What differs, and what that usually means; empty if it holds.
    """

    law: str
    holds: bool
    why: str = ""


def problem_of(algorithm: str, law: str) -> Problem | LowRank:
    """Return the problem of a law for an algorithm."""
    base = BASES.get(algorithm, Problem())
    if law == "off":
        return replace(base, options=OFF[algorithm])
    changes = LAWS[law]
    if law == "one node" and isinstance(base, Problem) and base.steps == (1, 1):
        changes = {**changes, "steps": (1,)}
    return replace(base, **changes)  # type: ignore[arg-type]


def expected(algorithm: str, law: str) -> Walk:
    """Return the walk that the law demands."""
    problem = problem_of(algorithm, law)
    plain = law in ("one node", "nodes alike", "off")
    return WALKS["fedavg" if plain else algorithm](problem, "")


def judged(algorithm: str, law: str, found: Walk) -> Verdict:
    """Return the verdict on a walk that a class has made."""
    wanted, problem = expected(algorithm, law), problem_of(algorithm, law)
    losses = problem.losses(wanted.own)
    if law.startswith("optimum") and isinstance(problem, Problem):
        end, optimum = found.states[-1], problem.optimum
        if math.isfinite(end) and abs(end - optimum) < ALIKE:
            return Verdict(law, True)
        return Verdict(
            law,
            False,
            f"after {len(found.states)} rounds x is {end:.6g}, not {optimum:g}: {_cause(algorithm, law, found)}",
        )
    if (place := _first_apart(found.states, wanted.states)) is not None:
        shown = f"{found.states[place]:.6g}" if place < len(found.states) else "missing"
        what = f"x after round {place + 1} is {shown}, not {wanted.states[place]:.6g}"
        return Verdict(law, False, f"{what}: {_cause(algorithm, law, found)}")
    if found.own and (place := _first_apart(found.own, losses)) is not None:
        what = f"the loss of client {place}'s own model is {found.own[place]:.6g}, not {losses[place]:.6g}"
        return Verdict(law, False, f"{what}: {_cause(algorithm, law, found)}")
    return Verdict(law, True)


def _first_apart(found: Sequence[float], wanted: Sequence[float], tolerance: float = TOLERANCE) -> int | None:
    """Return the first place at which two walks differ; None if at none."""
    for place, each in enumerate(wanted):
        if place >= len(found) or not abs(found[place] - each) <= tolerance * max(1.0, abs(each)):
            return place
    return None


def _cause(algorithm: str, law: str, found: Walk) -> str:
    """Return what a failing walk usually means: a known mistake, whose walk it is, or what the numbers look like."""
    problem, end = problem_of(algorithm, law), found.states[-1]
    grows = f"; it goes to {end:.3g}" if not abs(end) < FAR else ""
    for word, means in MISTAKES.get(algorithm, {}).items():
        other = WALKS[algorithm](problem, word)
        losses = problem.losses(other.own)
        is_it = _first_apart(found.states, other.states, ALIKE) is None
        if is_it and other != expected(algorithm, law) and _first_apart(found.own, losses, ALIKE) is None:
            return means + grows
    if grows:
        return f"it diverges, to {end:.3g}: a sign is reversed, or weights do not sum to 1"
    plain = WALKS["fedavg" if isinstance(problem, Problem) else "fedit"](problem, "")
    if _first_apart(found.states, plain.states, ALIKE) is None:
        return "it is FedAvg: the algorithm's own term has no effect"
    if abs(end - plain.states[-1]) < ALIKE * max(1.0, abs(end)):
        return "it ends where FedAvg ends: what is kept from round to round is not used, or not stored"
    return "it is none of the known mistakes; the walk: " + ", ".join(f"{x:.5g}" for x in found.states[:5])
