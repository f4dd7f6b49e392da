"""Fits of one node after another, each as if its process had trained no other.

What a learner keeps is put back before a fit (`fedlearn.models.torch.hidden_state`; a model does so itself when a state
is loaded), and the generators of Python, NumPy and torch, which foreign code may draw from, stand where (seed, round,
node) puts them. Where all code is ours, neither is needed, as ours draws from none but torch's, which the learner
seeds.

With noise that is to protect, ``privacy.noise = "secure"`` or a private learner's own, the operating system seeds them.

Personal layers (``training.personal``) are put into the state before a fit, and taken out of it afterwards, so that no
learner, codec or mod knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from client.learners import LEARNERS
from client.learners.learner import Learner, LocalFit, LocalTask
from client.memory import NodeMemory, memory_in
from client.node_feature import features_of, own_state
from client.owner.error_disclosure import is_private
from fedlearn import flower
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import seed_for
from fedlearn.core.state import State, is_same
from fedlearn.data.data_spec import Examples
from fedlearn.models.loaded import loaded
from fedlearn.models.torch.hidden_state import Beside
from fedlearn.plugins.generators import seeded_globals
from fedlearn.plugins.registry import call_plugin

TRIED = 4  # examples
PERSONAL = "training.personal"  # the layers that a node keeps for itself, in its memory
NAMED = 5  # names in one line
UNSEEN = (
    "two fits of one client with one seed differ: something is drawn where no seed reaches (os.urandom, secrets, "
    "random.SystemRandom, numpy.random.default_rng() without a seed), or kept where it cannot be seen: draw from the "
    "global generators of torch, NumPy or Python, which are seeded for each fit"
)

KEPT = (
    "{names}: no part of the model's state, so it begins anew in each fit; register it as a buffer to have it sent and "
    "averaged, or keep it in task.memory of a learner"
)


class Fits:
    """A run's learner, asked for one fit after another.

    Parameters
    ----------
    model
        What the learner trains.
    are_secret
        The run's nodes publish with noise that they pay for.
    """

    def __init__(self, learner: Learner, model: Any, config: RunConfig, *, are_secret: bool) -> None:
        self.learner = learner
        self._config = config
        self._personal = frozenset(model.parts.personal) if hasattr(model, "parts") else frozenset[str]()
        of_model = getattr(model, "beside", None)
        known = (model.module, model.objective, *model.module.state_dict(keep_vars=True).values()) if of_model else ()
        roots = {"learner": learner} if of_model else {"learner": learner, "model": model}
        kept = Beside(roots, without=known, apart=getattr(learner, "kept_between_fits", ()))
        self._beside: list[Beside] = [kept, *([of_model] if of_model else [])]
        own = any(":" in name for name in (config.training.optimizer, config.training.lr_schedule))
        self._is_foreign = own or any(each.is_foreign for each in self._beside)
        noise = config.privacy.noise
        self._is_seeded = noise == "seeded" or (noise == "auto" and not are_secret)

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return what the learner makes of a state on one node."""
        with self._alone(self._seed_of(task)):
            return self._kept(self.learner.fit(self._with_own(state, task.memory), task), task.memory)

    def personal(self, state: State, memory: NodeMemory) -> State:
        """Return the state that the node itself uses, and measures: with its personal layers."""
        return self.learner.personal(self._with_own(state, memory), memory)

    def _with_own(self, state: State, memory: NodeMemory) -> State:
        """Return a state with the personal layers of a node; a server that sends some of its own changes none."""
        if not self._personal:
            return state
        return {**{name: state[name] for name in state if name not in self._personal}, **self._own_in(memory)}

    def _own_in(self, memory: NodeMemory) -> State:
        return {name: array for name, array in memory.arrays.get(PERSONAL, {}).items() if name in self._personal}

    def _kept(self, fit: LocalFit, memory: NodeMemory) -> LocalFit:
        """Keep the personal layers of a fit in the node's memory; return the fit without them."""
        if not self._personal:
            return fit
        memory.arrays[PERSONAL] = {name: fit.arrays[name].copy() for name in fit.arrays if name in self._personal}
        return replace(fit, arrays={name: fit.arrays[name] for name in fit.arrays if name not in self._personal})

    def fit_many(self, state: State, tasks: Sequence[LocalTask]) -> Iterator[LocalFit]:
        """Yield the fit of each of several nodes, which the learner may train together."""
        with self._alone(self._seed_of(tasks[0])):
            yield from self.learner.fit_many(state, tasks)

    def put_back(self) -> None:
        """Put back what a fit has changed beside the state, for other runs of this process."""
        if self._is_foreign:
            for each in self._beside:
                each.put_back()

    def why_not_stacked(self, examples: Examples) -> str:
        """Return why the learner trains no nodes together, as it says itself: the same in each process."""
        if self._is_foreign and not self._config.training.stack:
            return "code that is not fedlearn's may draw numbers otherwise than alone"
        with self._alone(0):
            why_not = self.learner.why_not_stacked(examples)
        self.put_back()
        return why_not

    def try_learner(self, train: Examples) -> None:
        """Let the learner try what it does, before round 1; raise SettingError where it fails."""
        if len(train):
            with self._alone(0):
                self.learner.try_on(train)
            self.put_back()

    def _seed_of(self, task: LocalTask) -> int:
        return seed_for(task.seed, purpose="fit", round_number=task.round_number, node=task.partition_id)

    @contextmanager
    def _alone(self, seed: int) -> Iterator[None]:
        """Put back what the learner keeps, and have foreign code draw by a seed, if any was found."""
        if not self._is_foreign:
            yield
            return
        self.put_back()
        held = [generator for each in self._beside for generator in each.generators]
        with seeded_globals(seed if self._is_seeded else None, held):
            yield

    def tried(self, state: State, train: Examples) -> str:
        """Return the names of what is put back before each fit and would else change the next one; empty if none.

        Raises
        ------
        SettingError
            Where a fit depends on something that can be neither put back nor seeded, or changes a constant.
        """
        if not (self._is_foreign and self._is_seeded and len(train)):
            return ""
        try:
            first = self._trial_fit(state, train)
            changed = sorted({name for each in self._beside for name in each.changed()})
            with self._left_as_they_are():
                is_alike = is_same(first, self._trial_fit(state, train))
            if is_alike or (changed and is_same(first, self._trial_fit(state, train))):
                more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
                return "" if is_alike else ", ".join(changed[:NAMED]) + more
        except SettingError:
            raise
        except (Exception, SystemExit):  # what does not fit is said by the model's own trial, or by each node
            return ""
        finally:
            self.put_back()
        setting, name = "training.learner", self._config.training.learner
        raise SettingError(*((setting, name) if ":" in name else ("model.name", self._config.model.name)), UNSEEN)

    def _trial_fit(self, state: State, train: Examples) -> State:
        rows = np.arange(min(TRIED, len(train)))
        task = LocalTask(train, rows, self._config.seed, 1, 0, {}, most_examples=2 * TRIED)
        return {name: array.copy() for name, array in self.fit(state, task).arrays.items()}

    @contextmanager
    def _left_as_they_are(self) -> Iterator[None]:
        for each in self._beside:
            each.is_left = True
        try:
            yield
        finally:
            for each in self._beside:
                each.is_left = False


@per_run
def learner_of(config: RunConfig) -> Learner:
    """Return the learner of a run."""
    return _learner(config, loaded(config)[1])


def _learner(config: RunConfig, model: Any) -> Learner:
    name = config.training.learner or model.learner
    make = LEARNERS.load(name).from_settings
    with seeded_globals(seed_for(config.seed, purpose="learner")) if ":" in name else nullcontext():
        learner: Learner = call_plugin("training.learner", name, make, model, config)
    return learner


@per_run
def fits_of(config: RunConfig) -> Fits:
    """Return the fits of a run."""
    return Fits(learner_of(config), loaded(config)[1], config, are_secret=is_private(config))


@per_run
def plain_fits(config: RunConfig) -> Fits:
    """Return the fits of the model's own learner: of no algorithm, and without a pull to the state that was sent."""
    return _plainly(config, config.training.local_epochs)


@per_run
def tuning_fits(config: RunConfig) -> Fits:
    """Return plain fits of ``evaluation.tune_epochs`` passes."""
    return _plainly(config, config.evaluation.tune_epochs)


def _plainly(config: RunConfig, epochs: int) -> Fits:
    plain = {"learner": "", "options": "", "proximal_mu": 0.0, "partial": False, "local_epochs": epochs}
    config, model = config.model_copy(update={"training": config.training.model_copy(update=plain)}), loaded(config)[1]
    learner = call_plugin("training.learner", model.learner, LEARNERS.load(model.learner).from_settings, model, config)
    return Fits(learner, model, config, are_secret=False)


@per_run
def why_not_stacked(config: RunConfig) -> str:
    """Return why nodes are trained one by one whatever ``training.stack`` says; empty where they are not."""
    if is_private(config):
        return "its clients have ledgers"
    if of_features := next(filter(None, (each.why_not_stacked() for each in features_of(config))), ""):
        return of_features
    if config.client.mods:
        return "client.mods may change what a client is given to learn"
    if config.training.personal:
        return "each client has personal layers of its own"
    return fits_of(config).why_not_stacked(loaded(config)[0].train)


def state_of_node(kept: bytes, state: State, model: Any, config: RunConfig) -> State:
    """Return the state that a node uses, with all that it keeps for itself; no example is read.

    Parameters
    ----------
    kept
        The node's memory, as a run folder holds it.
    state
        The run's state.
    model
        The model, planned by the settings.
    """
    memory = memory_in(flower.from_bytes(kept))
    own = own_state(config, state, memory)
    return {**state, **Fits(_learner(config, model), model, config, are_secret=False).personal(own, memory)}
