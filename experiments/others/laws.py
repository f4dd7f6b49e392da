"""Classes of other frameworks as `fedlearn check` takes them: what each claims to be, and how it walks.

PYTHON -m fedlearn check experiments.others.laws:PflScaffold         # PYTHON as of experiments.others.quadratic
PYTHON -m fedlearn check experiments.others.laws:FlukeFedNova experiments.others.laws:FlukeFedDyn
"""

from __future__ import annotations

from experiments.others.quadratic import fluke_feddyn, fluke_fednova, pfl_scaffold
from fedlearn.algorithms.conformance.quadratics import Problem


class PflScaffold:
    """`pfl.algorithm.scaffold.SCAFFOLD`, option II."""

    algorithm, laws = "scaffold", ("walk", "optimum")

    def walk(self, problem: Problem) -> list[float]:
        """Return the server's state after each round."""
        return pfl_scaffold(problem.rounds, problem.steps[0])


class FlukeFedNova:
    """`fluke.algorithms.fednova.FedNovaServer`."""

    algorithm, laws = "fednova", ("unequal steps",)

    def walk(self, problem: Problem) -> list[float]:
        """Return the server's state after each round."""
        return fluke_fednova(problem.rounds, (problem.steps[0], problem.steps[1]))


class FlukeFedDyn:
    """`fluke.algorithms.feddyn.FedDynClient`."""

    algorithm, laws = "feddyn", ("weak pull",)

    def walk(self, problem: Problem) -> list[float]:
        """Return the server's state after each round."""
        return fluke_feddyn(problem.rounds, problem.steps[0], problem.pull)
