"""The problem of directional derivatives: the quadratics, of which clients send derivatives along drawn directions.

The derivative of a_i/2 (x - t_i)^2 along z is a_i (x - t_i) z, exactly what two losses tell, as they are quadratic.
Here x follows from the history in a run's state alone, and must be where clients have measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedlearn.algorithms.conformance import quadratics
from fedlearn.algorithms.conformance.quadratics import Problem, Quadratic, load, mean_of
from fedlearn.algorithms.conformance.walking import Walk, mean, nodes, weighted
from fedlearn.extend import RunConfig, State, rng_for

__all__ = ["Quadratic", "Scalars", "load", "mean_of", "number_in", "walk"]  # the first, third and fourth by name
HERE = __name__
DIRECTIONS, LR = 3, 0.05


@dataclass(frozen=True, slots=True)
class Scalars(Problem):
    """Nodes with quadratics, which take no local steps: `steps` says how many examples they have."""

    steps: tuple[int, ...] = (1, 1)
    lr: float = LR

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a run on this problem."""
        return {
            **quadratics.Problem.settings.fget(self),  # type: ignore[attr-defined]
            "model.name": f"{HERE}:Quadratic",
            "training.options": {"directions": DIRECTIONS},
            "training.local_epochs": 1,
            "evaluation.nodes": 0,
            **self.options,
        }


def direction(number: int, index: int) -> float:
    """Return a direction of a round, both as the run numbers them: a normal number, by the seed of the settings."""
    return float(
        rng_for(RunConfig().seed, purpose="direction", round_number=number, node=index).standard_normal(None, "f")
    )


def after(x: float, number: int, derivatives: list[float], *, rate: float) -> float:
    """Return x after the derivatives of a round."""
    return x - sum(rate * each * direction(number, index) for index, each in enumerate(derivatives))


def number_in(state: State, personal: str) -> float:
    """Return x of a run's state, from the history of derivatives alone."""
    x, history = 0.0, state["scalars"].tolist()
    for place in range(0, len(history), DIRECTIONS):
        x = after(x, place // DIRECTIONS + 1, history[place : place + DIRECTIONS], rate=LR / DIRECTIONS)
    return x


def walk(p: Problem, wrong: str = "") -> Walk:
    """Return the walk of Li et al. 2025, with all derivatives of a round taken at one point."""
    x, states = 0.0, []
    for number in range(1, p.rounds + 1):
        at = 0.0 if wrong == "first weights" else x
        slopes = [p.a[i] * (at - p.t[i]) for i in nodes(p)]
        slope = mean(slopes) if wrong == "by clients" else weighted(p, slopes)
        found = [slope * direction(number, index) for index in range(DIRECTIONS)]
        x = after(x, number, found, rate=p.lr / (1 if wrong == "summed" else DIRECTIONS))
        states.append(x)
    return Walk(states)
