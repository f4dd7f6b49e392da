"""The weight of a node in a mean over all nodes, of which a round sees some.

A strategy that keeps the mean of what all N nodes keep gets the sum of w_i times the changes, over those that reported,
and divides it by N w. w_i is a node's weight in the mean of states; w is the mean weight of all reports so far, so that
what is kept stays the mean, whoever takes part. With other weights than the states', corrections add up where sizes
differ.
"""

from __future__ import annotations

import numpy as np

from fedlearn.extend import Float64

COUNTED = "counted"  # in a strategy's moments: how many reports there were so far, and the sum of their weights


def mean_weight(moments: dict[str, Float64], reports: Float64) -> tuple[float, float]:
    """Count the reports of a round; return w after it, and by what the means kept so far have to be multiplied.

    Parameters
    ----------
    reports
        Number and sum of weights of the round's reports, shape (2,).
    """
    earlier = moments.get(COUNTED, reports)
    moments[COUNTED] = counted = reports + moments.get(COUNTED, np.zeros(2))
    weight, weight_before = counted[1] / counted[0], earlier[1] / earlier[0]
    return weight, weight_before / weight
