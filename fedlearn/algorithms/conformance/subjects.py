"""What is checked: an algorithm of the table, a strategy or a learner from outside, or any class that can walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedlearn.algorithms.conformance.adapter_problem import LowRank
from fedlearn.algorithms.conformance.laws import LAWS, OFF, Verdict, judged, problem_of
from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.slice_laws import SLICE_LAWS
from fedlearn.algorithms.conformance.walks import WALKS, Walk
from fedlearn.core.errors import SettingError
from fedlearn.plugins.registry import load_plugin
from fedlearn.plugins.tables import PRESETS
from strategies import STRATEGIES

Run = Callable[[Mapping[str, object]], Walk]
"""Makes a run of these settings, and returns its walk."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A class under test.

    Parameters
    ----------
    algorithm
        The algorithm that it claims to be, a name in `WALKS`.
    laws
        The laws that it claims to keep.
    walk
        Walks through a problem.
    of_slices
        Returns why a law of slices fails; empty where it holds.
    """

    algorithm: str
    laws: tuple[str, ...]
    walk: Callable[[Problem | LowRank], Walk]
    of_slices: Callable[[str], str] = str

    def verdicts(self) -> list[Verdict]:
        """Return what came of each law."""
        found = []
        for law in self.laws:
            if law in SLICE_LAWS:
                why = self.of_slices(law)
                found.append(Verdict(law, not why, why))
                continue
            walked = self.walk(problem_of(self.algorithm, law))
            found.append(judged(self.algorithm, law, walked))
        return found


def subject_of(name: str, run: Run, claimed: str = "") -> Subject:
    """Return the subject that a name means: one of ``strategy.name``, or ``module:Class`` from outside.

    Parameters
    ----------
    claimed
        The algorithm that a class from outside claims to be; else its attribute ``algorithm``.

    Raises
    ------
    SettingError
        For a name that means nothing, or a class that claims no algorithm of which laws are known.
    """
    kind: Any = STRATEGIES.load(name) if name in STRATEGIES or ":" not in name else load_plugin("check", name)
    algorithm = claimed or (name if name in WALKS else str(getattr(kind, "algorithm", "")))
    if algorithm not in WALKS:
        known = ", ".join(sorted(WALKS))
        why = f"no laws are known of it: say by --as which algorithm it is to be: {known}"
        raise SettingError("check", name, why)
    laws = tuple(getattr(kind, "laws", ())) or tuple(getattr(STRATEGIES.load(algorithm), "laws", ()))
    if unknown := [law for law in laws if law not in {*LAWS, *SLICE_LAWS} and (law != "off" or algorithm not in OFF)]:
        raise SettingError("check", name, f"it claims the law {unknown[0]!r}: there are {', '.join(LAWS)}")
    if callable(getattr(kind, "walk", None)):
        return Subject(algorithm, laws, lambda problem: Walk(list(kind().walk(problem))))
    if hasattr(kind, "fit"):  # a learner alone: its reports are averaged
        chosen: dict[str, object] = {
            **PRESETS.get(algorithm, {}),
            "strategy.name": "fedavg",
            "training.learner": name,
        }
    else:
        chosen = {"strategy.name": name}
    if any(law in SLICE_LAWS for law in laws):
        chosen["evaluation.nodes"] = 0
    return Subject(
        algorithm, laws, lambda problem: run({**problem.settings, **chosen}),
        lambda law: SLICE_LAWS[law](algorithm, name, run),
    )  # fmt: skip
