"""Error feedback: the loss of a codec in one round is added to the node's change in the next.

``sent = C(change + residual)``, ``residual' = change + residual - sent``: no change is lost for good, it is only late.
That makes biased codecs converge if they keep a part of any input, as `top-k`, `sign` and `eden` do.
Sources: Seide et al. 2014; Karimireddy et al. 2019 (arXiv:1901.09847), algorithm 1.

The residual is as large as the model, one for each node that has ever trained. A node that is seldom selected sends
its residual late, from an older state (Fed-EF is slower by nodes / cohort for that; Li, Li 2023).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from fedlearn.compression.codec import Codec, Payload
from fedlearn.compression.stages import Role, nothing_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array, State, layout_of


class Residual:
    """The stage in front of a chain that asks for error feedback, which the node does by `encode_with_residual`."""

    role = Role.RESIDUAL
    needs_change = True

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; it takes no argument."""
        nothing_from(argument)
        return cls()


@np.errstate(invalid="ignore", over="ignore")  # of a node that has diverged
def encode_with_residual(codec: Codec, change: State, residual: State, *, seed: int) -> tuple[Payload, State]:
    """Return the payload, and the new residual.

    Parameters
    ----------
    residual
        The residual of the node's last report, for each floating parameter; empty at first. A new residual that is not
        finite would spoil every later report, so the new residual is empty then.
    """
    wanted = {name: array + residual[name] if name in residual else array for name, array in change.items()}
    payload = codec.encode(wanted, seed=seed)
    layout = layout_of(wanted)
    sent = codec.decode(payload, layout=layout, seed=seed)
    left: dict[str, Array] = {
        name: array - sent[name].dense(layout[name]) for name, array in wanted.items() if array.dtype.kind == "f"
    }
    return payload, left if all(np.isfinite(array).all() for array in left.values()) else {}
