"""What byzfl makes of vectors: run by a Python that has byzfl, and nothing of ours; see `experiments.others.defences`.

PYTHON experiments/others/defences_of_byzfl.py INPUTS.npz ANSWERS.npz
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import byzfl
import numpy as np

RULES: dict[str, Callable[[Any, int], Any]] = {
    "median": lambda X, f: byzfl.Median()(X),
    "trimmed-mean": lambda X, f: byzfl.TrMean(f=f)(X),
    "krum": lambda X, f: byzfl.Krum(f=f)(X),
    "multi-krum": lambda X, f: byzfl.MultiKrum(f=f)(X),
    "geometric-median": lambda X, f: byzfl.GeometricMedian(nu=1e-12, T=3000)(X),
    "geometric-median, three steps": lambda X, f: byzfl.GeometricMedian()(X),
    "centered-clipping": lambda X, f: byzfl.CenteredClipping(L=3, tau=1.0)(X),
    "mixing, median": lambda X, f: byzfl.Median()(byzfl.NNM(f=f)(X)),
    "mixing, geometric-median": lambda X, f: byzfl.GeometricMedian(nu=1e-12, T=3000)(byzfl.NNM(f=f)(X)),
    "ipm": lambda X, f: byzfl.InnerProductManipulation(tau=2.0)(X),
    "sign-flip": lambda X, f: byzfl.SignFlipping()(X),
    "alie": lambda X, f: byzfl.ALittleIsEnough(tau=1.5)(X),
}


def main() -> None:
    """Answer all inputs."""
    inputs = np.load(sys.argv[1])
    answers: dict[str, Any] = {}
    for name in inputs.files:
        f = int(name.split("/")[1])
        answers |= {f"{name}|{rule}": ask(inputs[name].copy(), f) for rule, ask in RULES.items()}
    np.savez(sys.argv[2], **answers)


if __name__ == "__main__":
    main()
