"""Differential privacy: budgets, the accountant, noise, mechanisms. The auditor is ``fedlearn.auditing``."""

from fedlearn.privacy.accountant import PrivacyAccountant
from fedlearn.privacy.budget import NeighboringRelation, PrivacySpent, PrivacyUnit, SpentLine, largest_loss
from fedlearn.privacy.mechanisms import (
    disjoint_parts,
    exponential,
    gaussian,
    geometric,
    laplace,
    noisy_quantile,
    permute_and_flip,
    polya_share,
    skellam,
)
from fedlearn.privacy.noise import Noise, secure_noise, seeded_noise

__all__ = [
    "NeighboringRelation",
    "Noise",
    "PrivacyAccountant",
    "PrivacySpent",
    "PrivacyUnit",
    "SpentLine",
    "disjoint_parts",
    "exponential",
    "gaussian",
    "geometric",
    "laplace",
    "largest_loss",
    "noisy_quantile",
    "permute_and_flip",
    "polya_share",
    "secure_noise",
    "seeded_noise",
    "skellam",
]
