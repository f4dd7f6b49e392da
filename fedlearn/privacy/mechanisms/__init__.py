"""Mechanisms: one pure function per file, each with its sensitivity, norm, relation, source and proof."""

from fedlearn.privacy.mechanisms.exponential import exponential
from fedlearn.privacy.mechanisms.gaussian import gaussian
from fedlearn.privacy.mechanisms.gaussian_share import gaussian_share
from fedlearn.privacy.mechanisms.geometric import geometric
from fedlearn.privacy.mechanisms.laplace import laplace
from fedlearn.privacy.mechanisms.noisy_quantile import noisy_quantile
from fedlearn.privacy.mechanisms.parallel_parts import disjoint_parts
from fedlearn.privacy.mechanisms.permute_and_flip import permute_and_flip
from fedlearn.privacy.mechanisms.polya import polya_share
from fedlearn.privacy.mechanisms.skellam import skellam

__all__ = [
    "disjoint_parts",
    "exponential",
    "gaussian",
    "gaussian_share",
    "geometric",
    "laplace",
    "noisy_quantile",
    "permute_and_flip",
    "polya_share",
    "skellam",
]
