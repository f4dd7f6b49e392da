"""Trees over categorical features, record by record and node by node: slow and obvious.

A tree is a nested tuple: ``()`` is a leaf, ``(feature, children)`` an inner node. A record is a list of codes, None =
missing.
"""

from __future__ import annotations

import math
from fractions import Fraction


def leaf_weights(tree, record, weight):
    """Return [(path, weight)] of the leaves that a record reaches; path = the child taken at each node.

    Fractions are divided exactly; integers as the weight partition in units does it: the remainder to the first
    children.
    """
    if not tree:
        return [((), weight)]
    feature, children = tree
    if record[feature] is not None:
        shares = {record[feature]: weight}
    elif isinstance(weight, Fraction):
        shares = dict.fromkeys(range(len(children)), weight / len(children))
    else:
        share, rest = divmod(weight, len(children))
        shares = {child: share + (1 if child < rest else 0) for child in range(len(children))}
    return [
        ((child, *path), part)
        for child, portion in shares.items()
        for path, part in leaf_weights(children[child], record, portion)
    ]


def leaf_paths(tree):
    """Return the paths of all leaves."""
    if not tree:
        return [()]
    return [(child, *path) for child, below in enumerate(tree[1]) for path in leaf_paths(below)]


def utility(criterion, branches):
    """Return the utility of a split; `branches` holds the class counts of each branch."""
    if criterion == "max":
        return sum(max(counts) for counts in branches)
    if criterion == "gini":
        return -sum(sum(c) - sum(x * x for x in c) / sum(c) for c in branches if sum(c) > 0)
    return -sum(x * math.log2(sum(c) / x) for c in branches for x in c if x > 0)


def best_tree(records, labels, sizes, num_classes, *, depth, criterion, used=()):
    """Return ID3 without noise, ties to the first feature; records are complete."""
    free = [feature for feature in range(len(sizes)) if feature not in used]
    if not depth or not free:
        return ()

    def count(feature, code, label):
        return sum(r[feature] == code and known == label for r, known in zip(records, labels, strict=True))

    def branches(feature):
        return [[count(feature, code, label) for label in range(num_classes)] for code in range(sizes[feature])]

    chosen = max(free, key=lambda feature: (round(utility(criterion, branches(feature)), 9), -feature))
    children = []
    for code in range(sizes[chosen]):
        inside = [i for i, record in enumerate(records) if record[chosen] == code]
        part, part_labels = [records[i] for i in inside], [labels[i] for i in inside]
        below = best_tree(
            part, part_labels, sizes, num_classes, depth=depth - 1, criterion=criterion, used=(*used, chosen)
        )
        children.append(below)
    return (chosen, tuple(children))
