"""Axes of outputs and targets: which belong together follows from shapes, never from the number of entries.

| targets of an example | outputs of a module |
|---|---|
| one of K classes | (B, K) |
| classes at several places, (L,) or (H, W) | (B, K, L) or (B, K, H, W), as of torch's cross_entropy; or (B, L, K) |
| numbers (...) | (B, ...) |
| an image (H, W, C), where examples are images | (B, C, H, W), as the module gets images |

For numbers, axes of length 1 make no difference. Where (B, K, L) and (B, L, K) have the same shape, the module's
``class_axis``, 1 or -1, says on which axis the classes stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedlearn.data.data_spec import DataSpec

Shape = Sequence[int]
NARROW = (torch.bfloat16, torch.float16)


def class_axes(outputs: Shape, targets: Shape, classes: int) -> tuple[int, ...]:
    """Return the axes of the outputs on which the classes may stand: 1, -1, both or neither.

    >>> [class_axes(outputs, (2, 7), 5) for outputs in ((2, 5, 7), (2, 7, 5), (2, 7, 7), (2, 35))]
    [(1,), (-1,), (1, -1), ()]
    """
    if len(outputs) != len(targets) + 1:
        return ()
    places = [(1, (outputs[0], *outputs[2:]))]
    if len(outputs) > 2:
        places.append((-1, tuple(outputs[:-1])))
    return tuple(axis for axis, others in places if others == tuple(targets) and outputs[axis] >= classes)


def are_alike(outputs: Shape, targets: Shape) -> bool:
    """Return whether two shapes differ in axes of length 1 only; the first axis of both is the batch.

    >>> [are_alike(outputs, (2, 7)) for outputs in ((2, 7), (2, 7, 1), (7, 2), (2, 1, 7), (14,))]
    [True, True, False, True, False]
    """
    if len(outputs) == 0:  # a batch of one example, after squeeze()
        return set(targets) <= {1}
    return outputs[0] == targets[0] and _longer_than_1(outputs) == _longer_than_1(targets)


def _longer_than_1(shape: Shape) -> list[int]:
    return [side for side in shape[1:] if side != 1]


def learns_images(spec: DataSpec) -> bool:
    """Return whether examples and their targets are images."""
    return spec.is_image and len(spec.target_shape) == 3


def are_labels(spec: DataSpec) -> bool:
    """Return whether an example has several labels of yes or no, which no sequence of tokens has."""
    return spec.classes == 2 and len(spec.target_shape) == 1 and not spec.vocabulary


def target_shape(spec: DataSpec) -> tuple[int, ...]:
    """Return the shape of the outputs for one example: that of its target, (C, H, W) for an image.

    >>> target_shape(DataSpec("grey to colour", (28, 24, 1), "float32", target_shape=(28, 24, 3)))
    (3, 28, 24)
    """
    shape = spec.target_shape
    return (shape[-1], *shape[:-1]) if learns_images(spec) else shape


def logits_of(outputs: Any) -> Any:
    """Return the logits among outputs: the entry ``logits`` or ``out`` of a mapping, or the first of a tuple.

    Numbers of 16 bits, as of a base in bfloat16, become float32, in which losses are computed.

    >>> logits_of({"logits": 1, "hidden": 2}), logits_of((3, 4)), logits_of(5)
    (1, 3, 5)
    """
    if isinstance(outputs, Mapping):
        return _wide(outputs.get("logits", outputs.get("out")))
    if hasattr(outputs, "logits"):  # results of `transformers`
        return _wide(outputs.logits)
    return _wide(outputs[0] if isinstance(outputs, tuple | list) and outputs else outputs)


def named_logits(outputs: Any) -> Any:
    """Return the entry ``logits`` of outputs that have one, as of `transformers`; any other outputs as they are.

    >>> named_logits({"loss": None, "logits": 1}), named_logits((3, 4))
    (1, (3, 4))
    """
    has_logits = "logits" in outputs if isinstance(outputs, Mapping) else hasattr(outputs, "logits")
    return logits_of(outputs) if has_logits and not isinstance(outputs, Tensor) else _wide(outputs)


def _wide(outputs: Any) -> Any:
    return outputs.float() if isinstance(outputs, Tensor) and outputs.dtype in NARROW else outputs


def with_logits(outputs: Any, logits: Tensor) -> Any:
    """Return outputs with other logits, where `logits_of` finds them.

    >>> with_logits({"logits": 1, "hidden": 2}, 3), with_logits((1, 4), 3), with_logits(5, 3)
    ({'logits': 3, 'hidden': 2}, (3, 4), 3)
    """
    if isinstance(outputs, Mapping):
        return {**outputs, "logits" if "logits" in outputs else "out": logits}
    return (logits, *outputs[1:]) if isinstance(outputs, tuple | list) else logits


def wrong_shape(outputs: Tensor, targets: Tensor, wanted: Shape) -> str:
    """Return the line that refuses outputs: it names their shape, the shape that they should have, and the targets'."""
    found = f"its outputs have shape {tuple(outputs.shape)}, which should be {tuple(wanted)}"
    return f"{found}: the targets have shape {tuple(targets.shape)}"
