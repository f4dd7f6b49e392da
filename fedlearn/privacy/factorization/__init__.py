"""Banded matrix factorization: noise of a round takes away what earlier rounds' noise has added to the sum."""

from fedlearn.privacy.factorization.banded import Banded, independent, square_root
from fedlearn.privacy.factorization.correlated_noise import CorrelatedNoise
from fedlearn.privacy.factorization.inverse_banded import InverseBanded, inverse_square_root
from fedlearn.privacy.factorization.optimum import optimal, searched
from fedlearn.privacy.factorization.planning import Option, most_separation, options

__all__ = [
    "Banded",
    "CorrelatedNoise",
    "InverseBanded",
    "Option",
    "independent",
    "inverse_square_root",
    "most_separation",
    "optimal",
    "options",
    "searched",
    "square_root",
]
