"""The true privacy loss of the printed regression trees, query by query.

The paper books beta = epsilon / (2 l_max + 1) for each of 2 l_max + 1 queries on a path. It has three errors:

*Composition.* A path of l_max splits asks more: 1 + l_max (choice, children's sizes) + leaf = 2 l_max + 2 queries if a
child's size is asked once, 3 l_max + 2 if line 1 asks again. One query too many is a whole epsilon at l_max = 0.

*The leaf.* The sensitivity 1 / N_leaf needs N_leaf rows, but only a noisy count was tested. With one row in the leaf,
changing its target from 0 to 1 moves the mean by 1 against noise of scale 1 / (N_leaf beta): a loss of N_leaf beta.

*The choice.* The sensitivity 1 / N_split of the mean error needs N_split rows in the same way; with the fitted weights
exp(r beta u), u = -sum of errors, one row moves u by up to 1 whatever the size: a loss of r beta.

The losses are finite if the bounds are declared, and `true_privacy_loss` adds up the largest loss of each query. The
relation is add or remove one record. The bounds (n rows in the node, targets in [0, 1]):

- size: one record moves it by 1; siblings are disjoint, so both sizes of a split cost beta together;
- fitted choice: adding a record raises the sum of errors of every split, by at most n / (n + 1) < 1 (squared) or 1
  (absolute), so all utilities move one way and the loss is r beta, not 2 r beta;
- literal choice: the mean error rises by at most n / (n + 1)^2 (squared) or 1 / (n + 1) (absolute), or falls by at most
  1 / (4 (n + 1)) or 1 / (2 (n + 1)), and falls from n = 2 on only; the loss is N_split beta / 2 times the largest sum
  of a rise and a fall, which is 11/36 (squared, n = 2) or 1/2 (absolute, n = 1 and 2);
- leaf, mean: one record moves it by at most 1 / (n + 1), from the middle of the bounds if n = 0: at most 1/2;
- leaf, median: |1/2 - F_n| moves by at most 1 / (n + 1) and is constant for n <= 1; the density and its normalization
  both move, so the loss is at most 2 (N_leaf beta / 2) / 2 = N_leaf beta / 2, as for the mean.

Replacing one record is removing one and adding one: twice the loss at most. A forest on disjoint parts loses no more
than one tree if a record's part does not move when another record comes or goes.

If the bounds are the data's own minimum and maximum, as in the paper's experiments, no epsilon holds: thresholds are
convex combinations of the bounds, so taking the record with the largest value away moves every published threshold of
that feature for sure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.private_trees.as_printed.growing import PrintedSettings

SQUARED_SPREAD = 11 / 36  # n / (n + 1)^2 + 1 / (4 (n + 1)) at n = 2; smaller for every other n
ABSOLUTE_SPREAD = 1 / 2  # 1 / (n + 1) + 1 / (2 (n + 1)) at n = 2; 1 / 2 + 0 at n = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedLoss:
    """The printed claim beside the true privacy loss, both in nats, of a tree or of a forest on disjoint parts.

    Parameters
    ----------
    claimed : float
        Epsilon given to the algorithm.
    queries : int
        Number of queries on the longest path; the paper books 2 l_max + 1.
    booked : float
        queries * beta: the claim, with the right number of queries and the paper's sensitivities.
    epsilon : float
        True privacy loss for adding or removing one record: an upper bound, infinite without declared bounds.
    lines : tuple of str
        Terms of the sum, as text.

    Examples
    --------
    >>> loss = true_privacy_loss(PrintedSettings(epsilon=1, depth=15))
    >>> loss.claimed, round(loss.epsilon, 2), loss.queries
    (1, 1.65, 32)
    """

    claimed: float
    queries: int
    booked: float
    epsilon: float
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def true_privacy_loss(settings: PrintedSettings, *, bounds_declared: bool = True) -> PrintedLoss:
    """Return the true privacy loss of the printed algorithm with these settings.

    >>> loss = true_privacy_loss(PrintedSettings(epsilon=1, depth=5))
    >>> print(loss)
    the paper claims epsilon 1, it gives 1.909 (add or remove one record); it is not 1-DP
      noisy sizes:     6 x beta
      choices:         5 x 2 beta
      leaf:            1 x 5 beta, booked as 1 beta
      beta = epsilon / 11; 12 queries on a path, booked as 11
    """
    depth, beta = settings.depth, settings.beta
    literal = settings.reading == "literal"
    sizes = 1 + depth * (2 if literal else 1)
    spread = SQUARED_SPREAD if settings.leaf == "mean" else ABSOLUTE_SPREAD
    choice = settings.utility_rate * (spread if literal else 1)
    leaf = settings.min_leaf / 2
    queries = sizes + depth + 1
    bound = (sizes + depth * choice + leaf) * beta
    epsilon = bound if bounds_declared else math.inf
    return PrintedLoss(
        claimed=settings.epsilon,
        queries=queries,
        booked=queries * beta,
        epsilon=epsilon,
        lines=(
            _verdict(settings.epsilon, epsilon),
            f"  noisy sizes:     {sizes} x beta",
            f"  choices:         {depth} x {choice:.4g} beta",
            f"  leaf:            1 x {leaf:.4g} beta, booked as 1 beta",
            f"  beta = epsilon / {2 * depth + 1}; {queries} queries on a path, booked as {2 * depth + 1}",
        ),
    )


def _verdict(claimed: float, epsilon: float) -> str:
    if math.isinf(epsilon):
        return f"the paper claims epsilon {claimed:.4g}, there is none: its bounds were read from the data"
    relation = "(add or remove one record"
    if epsilon > claimed:
        return f"the paper claims epsilon {claimed:.4g}, it gives {epsilon:.4g} {relation}); it is not {claimed:.4g}-DP"
    return (
        f"the paper claims epsilon {claimed:.4g}, it gives {epsilon:.4g} {relation}), but not by the paper's argument"
    )
