"""A node's own noise on its change: what leaves the node is private by itself, or in the sum of all.

The node's ledger is asked first, and keeps the answer: the same question gets the same noise, also after a kill.
"""

from __future__ import annotations

import numpy as np

from client.learners.learner import LocalFit, LocalTask
from client.node_feature import Fit, NodeFeature
from client.node_ledger import own_noise
from client.request import Request
from fedlearn.config import RunConfig
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import Array, State, difference, layout_of
from fedlearn.privacy.clipping import clipped
from fedlearn.privacy.noise import Noise, secure_noise, seeded_noise
from fedlearn.secure.noisy import NoisyChanges

SHARED = "sums"  # the name of the one array of an answer whose noise is distributed


class LocalNoise(NodeFeature):
    """Adds the node's own noise to its change; the ledger has been asked before."""

    @classmethod
    def is_asked(cls, config: RunConfig) -> bool:
        """Return whether nodes add noise themselves."""
        return config.nodes_add_noise

    def fit(self, request: Request, state: State, task: LocalTask, fit: Fit) -> LocalFit:
        """Return the fit with local noise; metrics, parcels and the number of examples are removed."""
        return noised(request.config, state, task, fit(state, task))


def noised(config: RunConfig, state: State, task: LocalTask, fit: LocalFit) -> LocalFit:
    """Return a fit with the node's own noise, and nothing else of it: no parcel, metric or number of examples.

    Returns
    -------
    LocalFit
        With local noise the noisy state; with distributed noise the change in whole numbers as one vector.
        Epsilon is that of a node that has taken part in every round, which is public.
    """
    change = {name: difference(fit.arrays[name], state[name]) for name in state}
    noise = noise_of(config, task)
    if config.privacy.trust == "distributed":
        arrays = _shared(config, change, noise)
    else:
        noisy = _local(config, change, noise)
        arrays = {name: np.asarray(state[name] + part, state[name].dtype) for name, part in noisy.items()}
    return LocalFit(arrays, 1, {EPSILON.name: own_noise(config).spent_after(task.round_number)})


def noise_of(config: RunConfig, task: LocalTask) -> Noise:
    """Return the source of a node's noise: seeded ones are the same in each attempt at a round."""
    if config.privacy.noise != "seeded":
        return secure_noise()
    place = {"round_number": task.round_number, "node": task.partition_id}
    return seeded_noise(seed_for(task.seed, purpose="noise of a node", **place))


def _local(config: RunConfig, change: State, noise: Noise) -> dict[str, Array]:
    """Return a change, clipped, with all the noise that its report needs."""
    short = clipped(change, config.privacy.clip)
    flat = np.concatenate([np.zeros(0), *(np.asarray(each, np.float64).reshape(-1) for each in short.values())])
    noisy = own_noise(config).added_to(flat, noise)
    parts = np.split(noisy, np.cumsum([each.size for each in short.values()])[:-1])
    return {name: part.reshape(short[name].shape) for name, part in zip(short, parts, strict=True)}


def _shared(config: RunConfig, change: State, noise: Noise) -> dict[str, Array]:
    """Return a change in whole numbers with a share of the noise."""
    return {SHARED: NoisyChanges.of(config, layout_of(change)).shared(change, noise)}
