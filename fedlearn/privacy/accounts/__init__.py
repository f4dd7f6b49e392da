"""Accounts of Gaussian mechanisms: epsilon of their noise, noise for an epsilon, and what is left of a budget."""

from fedlearn.privacy.accounts.by_round import epsilons_by_round
from fedlearn.privacy.accounts.calibration import noise_multiplier_for
from fedlearn.privacy.accounts.epsilons import Accountant, epsilon_of
from fedlearn.privacy.accounts.filter import RdpFilter
from fedlearn.privacy.accounts.guarantee import Guarantee
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds

__all__ = [
    "Accountant",
    "GaussianRounds",
    "Guarantee",
    "RdpFilter",
    "epsilon_of",
    "epsilons_by_round",
    "noise_multiplier_for",
]
