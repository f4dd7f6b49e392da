"""What the auditor is shown of the printed algorithms: it must refute them.

python -m experiments.private_trees.as_printed.audits
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.private_trees.as_printed.growing import PrintedSettings, grow_printed_forest
from fedlearn.auditing import audit_everything
from fedlearn.auditing.cases import AuditCase, Release
from fedlearn.privacy.noise import Noise
from fedlearn.private_trees.domain import Domain


def _printed(targets: list[float], epsilon: float) -> Release:
    """Return the lone leaf of many trees as the regression paper prints them, each on its own rows."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        y = np.tile(targets, draws)
        tree_of_row = np.repeat(np.arange(draws), len(targets))
        settings = PrintedSettings(epsilon=epsilon, depth=0)
        domain = Domain.declare(num_features=1, bounds=(0, 1), target_bounds=(0, 1))
        table = grow_printed_forest(
            np.zeros((len(y), 1)), y, domain=domain, settings=settings, parts=tree_of_row, trees=draws, noise=noise
        )
        values: NDArray[Any] = table.value[table.root, 0]
        return values

    return draw


PRINTED_CLAIMS: dict[str, AuditCase] = {
    "as printed, a leaf of two records": AuditCase(0.3, _printed([0.0], 0.3), _printed([0.0, 1.0], 0.3)),
}
"""Each gives more than the paper claims."""

if __name__ == "__main__":
    for result in audit_everything(100_000, None, PRINTED_CLAIMS):
        print(result)
