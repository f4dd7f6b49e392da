from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.private_trees.classes.shares import even_shares, harmonic_shares


def test_figure_3_of_the_paper():
    # Root .18; its child B .27 with leaves D, E of .55 each; its leaf C gets all that is left: .82.
    root, inner, leaf = harmonic_shares(2)
    assert [round(share, 2) for share in (root, inner, leaf)] == [0.18, 0.27, 0.55]
    assert round(harmonic_shares(2)[1:].sum(), 2) == 0.82
    assert (root, inner, leaf) == pytest.approx((2 / 11, 3 / 11, 6 / 11))


@given(depth=st.integers(0, 12), shares=st.sampled_from([even_shares, harmonic_shares]))
def test_every_path_spends_one(depth, shares):
    path = shares(depth)
    assert path.sum() == pytest.approx(1)
    assert (np.diff(path) >= -1e-15).all()  # deeper nodes never get less
