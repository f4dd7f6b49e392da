"""Random entries of the change, scaled up so that the mean is kept: an unbiased estimate of the whole change.

The entries are those that `drop` sends, but an entry that is not sent counts as zero, and a sent entry as
``size / count`` times its value. A mean over nodes then has the right expectation, at the price of variance; the mean
over the senders (`drop`) is better where nodes agree.

Source: Konecny et al. 2016 (arXiv:1610.05492), section 3, "subsampling"; Rand-k in Jhunjhunwala et al. 2021
(arXiv:2110.07751).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedlearn.compression.codec import Payload
from fedlearn.compression.drop import Drop
from fedlearn.compression.scales import zero_filled
from fedlearn.core.state import ArraySpec, Entries, Layout, Positions


class RandK(Drop):
    """Sends a random share of the entries of each parameter; integer parameters go whole."""

    needs_change = True
    leaves_null = False

    def chosen(self, payload: Payload, *, layout: Layout, seed: int) -> Mapping[str, Positions | None]:
        """Return the positions that the seed gives."""
        return {
            name: self._sent_entries(spec, seed, name) if np.dtype(spec.dtype).kind == "f" else None
            for name, spec in sorted(layout.items())
        }

    def restored(self, entries: Entries, spec: ArraySpec) -> Entries:
        """Return the estimate of all entries of a parameter."""
        if entries.positions is None:
            return entries
        scale = entries.values.dtype.type(spec.size / len(entries.positions))
        return zero_filled(Entries(entries.values * scale, entries.positions), spec)
