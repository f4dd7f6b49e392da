"""Gradients of single examples, each clipped by itself: the part of DP-SGD that reads examples.

| file | what |
|---|---|
| `clipped_sum.py` | the law of a clipped sum, and the factor by which a gradient is shortened |
| `by_layer.py`, `layer_gradients.py` | from inputs and gradients of the outputs of each layer: one pass for all |
| `by_transform.py` | by `torch.func`, of any module that it takes |
| `one_by_one.py` | a pass for each example, of any module |
| `mixing_layers.py` | layers that mix examples, refused by name |
| `alike_places.py` | whether an example has one gradient at all places of a batch |
| `choosing.py` | the fastest of the three that computes the right thing |
"""

from fedlearn.models.per_example.alike_places import places_alike
from fedlearn.models.per_example.clipped_sum import ClippedSum
from fedlearn.models.per_example.fastest_way import clipped_sum_of
from fedlearn.models.per_example.mixing_layers import check_apart

__all__ = ["ClippedSum", "check_apart", "clipped_sum_of", "places_alike"]
