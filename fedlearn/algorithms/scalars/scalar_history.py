"""A torch module whose state is the history of derivatives along directions that the run's seed draws.

Round r has K directions z_1, ..., z_K of independent standard normal numbers, one for each trained parameter, drawn by
(seed, round, index) alone. With the clients' mean derivatives g_k the weights change by

    x <- x - lr / K * g_1 z_1, then x <- x - lr / K * g_2 z_2, ...

in float32, in this order: the same bytes in each process. A process that has computed the weights of a state goes on
from there; any other begins at the first weights, which no message brings to a client that can make them.

*Sums.* A report holds n * 2^b and n * rint(g_k 2^b / `BOUND`) for n examples, as whole numbers. So the sum of all
reports is exact in any order, with or without masks, and the state has the mean of each derivative in float32.

Shapes: K directions; R rounds with reports so far.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.algorithms.scalars.decomfl import BOUND, MOST_BITS, SCALARS, STEP
from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.state import ArraySpec, Layout, is_same
from fedlearn.extend import Array, RunConfig, State, TorchModel, UpdateKind, layout_of, rng_for
from fedlearn.models.sums import ExactSums, check_layout
from fedlearn.models.torch.module_state import check_alike
from fedlearn.plugins.registry import Registry
from fedlearn.plugins.tables import LR_SCHEDULES
from fedlearn.privacy.mechanisms.gaussian_share import whole_steps

SUM_BITS = 61  # of a sum of all clients, without its sign
RATES = Registry("training.lr_schedule", LR_SCHEDULES)


def is_within(whole: NDArray[np.int64], reach: int) -> bool:
    """Return whether whole numbers have an L2 norm of at most `reach`; exactly, as in Python's integers."""
    return bool(sum(each * each for each in whole.tolist()) <= reach * reach)


class ScalarHistory(ExactSums, TorchModel):
    """A module trained by derivatives along directions, made of a `TorchModel` by `of`."""

    update_kind = UpdateKind.SUMS
    learner = "two-point"
    grows = SCALARS
    directions: int
    reach: int  # largest L2 norm of a report's derivatives, in whole numbers; 0 where no noise protects clients
    _settings: RunConfig
    _first: dict[str, Array]  # the first weights
    _walked: NDArray[np.float32]  # the history whose weights are computed
    _weights: dict[str, Array]

    @classmethod
    def of(cls, model: TorchModel, config: RunConfig, *, directions: int) -> Self:
        """Return a run's model with this history in place of its weights."""
        made = cls.__new__(cls)
        made.__dict__.update(model.__dict__)
        made.directions = directions
        made._settings = config
        made._first = dict(TorchModel.initial_state(model, seed=config.seed))
        made._restart()
        records = config.largest_cohort * config.gate.max_examples
        made.cap = 1 << max(min(SUM_BITS - records.bit_length(), MOST_BITS), 0)
        made.reach = 0
        if config.protects_nodes:
            made.cap, made.reach = 1 << MOST_BITS, int(config.privacy.clip / STEP)
            if not 1 <= made.reach <= made.cap:
                why = f"a client's derivatives are clipped in steps of {STEP:.2g}, to {BOUND:g} at most"
                raise SettingError("privacy.clip", config.privacy.clip, why)
        return made

    def planned(self, config: RunConfig) -> Self:
        """Return the model: it is made of one that is planned."""
        return self

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1, an empty history; the seed makes no difference."""
        return {"sums": np.zeros(0, np.int64), "reports": np.zeros(0, np.int64), SCALARS: np.zeros(0, np.float32)}

    @property
    def unsent(self) -> State:
        """The arrays that are never sent: the first weights, and frozen ones."""
        return {**super().unsent, **self._first}

    def hold(self, unsent: State) -> None:
        """Take the first weights, and frozen arrays, from another process."""
        check_alike(unsent, self.unsent)
        if is_same(self.unsent, unsent):
            return
        self.beside.put_back()
        self._state.hold({name: array for name, array in unsent.items() if name not in self._first})
        self.beside.take_numbers()
        self._first = {name: unsent[name].copy() for name in self._first}
        self._restart()

    def length_after(self, before: Layout) -> int:
        """Return the number of sums in a report: one for each direction, and the weight."""
        return self.directions + 1

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Raise `Refused` for a report that no honest node sends."""
        super().check_sums(arrays, before=before, max_examples=max_examples)
        weight = int(arrays["sums"][0])
        if weight < self.cap or weight % self.cap:
            raise Refused("wrong-count", "its weight is no number of examples")
        if int(np.abs(arrays["sums"]).max()) > weight:
            raise Refused("too-large", f"a derivative is beyond {BOUND:g}")
        if self.reach and not (weight == self.cap and is_within(arrays["sums"][1:], self.reach)):
            raise Refused("norm-too-large", "the derivatives are longer than privacy.clip, or weigh more than one")

    def check_state(self, state: State) -> None:
        """Raise `Refused` for a state that no honest server sends."""
        found = layout_of(state)
        most = self._settings.rounds.total * self.directions
        length = found[SCALARS].size if SCALARS in found else 0
        wanted = {
            "sums": ArraySpec((0,), "int64"), "reports": ArraySpec((0,), "int64"),
            SCALARS: ArraySpec((length,), "float32"),
        }  # fmt: skip
        check_layout(found, wanted)
        if length % self.directions or length > most:
            raise Refused("wrong-shape", f"{length} derivatives are not {self.directions} of each round")
        if not (np.abs(state[SCALARS]) <= BOUND).all():
            raise Refused("too-large", f"a derivative is beyond {BOUND:g}")

    def report_of(self, derivatives: NDArray[np.float64], examples: int) -> State:
        """Return the report of a client with so many examples; clipped where noise protects clients.

        Raises
        ------
        ValueError
            If a derivative is NaN; where noise protects clients, such derivatives count as zeros.
        """
        if self.reach:
            whole = whole_steps(derivatives, clip=self.reach * STEP, reach=self.reach)
            return {"sums": np.append(self.cap, whole), "reports": np.ones(1, np.int64)}
        if not np.isfinite(derivatives).all():
            raise ValueError("a loss is not finite: take a smaller training.lr, or another training.options.step")
        whole = np.rint(np.clip(derivatives / BOUND, -1, 1) * self.cap).astype(np.int64)
        return {"sums": examples * np.concatenate([[self.cap], whole]), "reports": np.ones(1, np.int64)}

    def condensed(self, state: State) -> State:
        """Return the state with the means of the last round's derivatives, and without its sums."""
        if not len(state["sums"]):
            return state
        weight, *sums = state["sums"].tolist()
        means = np.clip(np.array(sums, np.float64) / max(weight, 1), -1, 1) * BOUND
        return {**self.initial_state(seed=0), SCALARS: np.append(state[SCALARS], means.astype(np.float32))}

    def rounds_in(self, state: State) -> int:
        """Return R, the number of rounds whose derivatives a state holds."""
        return len(state[SCALARS]) // self.directions

    def direction(self, number: int, index: int) -> State:
        """Return direction `index`, from 0, of round `number`, from 1: an array for each trained parameter."""
        draw = rng_for(self._settings.seed, purpose="direction", round_number=number, node=index)
        return {
            name: draw.standard_normal(self._first[name].size, np.float32).reshape(self._first[name].shape)
            for name in self.names
        }

    def weights_of(self, state: State) -> State:
        """Return the weights that a history comes to, read-only."""
        scalars = state[SCALARS]
        done = len(self._walked)
        if not np.array_equal(scalars[:done], self._walked):
            self._restart()
            done = 0
        for place in range(done, len(scalars)):
            number, index = divmod(place, self.directions)
            rate = self.rate(number + 1) / self.directions
            for name, along in self.direction(number + 1, index).items():
                self._weights[name] -= np.float32(rate * float(scalars[place])) * along
        self._walked = scalars.copy()
        return self._weights

    def rate(self, number: int) -> float:
        """Return the learning rate of the round with this number."""
        training = self._settings.training
        return float(RATES.load(training.lr_schedule)(training, number, self._settings.rounds.total))

    def load(self, state: State) -> None:
        """Load the weights of a history, or weights as they are, into the module."""
        if SCALARS not in state:
            return super().load(state)
        if first := {name: state[name] for name in self.unsent if name in state}:  # of a file of the model
            self.hold(first)
        return super().load(self.weights_of(state))

    def _restart(self) -> None:
        self._walked = np.zeros(0, np.float32)
        self._weights = {name: array.copy() for name, array in self._first.items()}
