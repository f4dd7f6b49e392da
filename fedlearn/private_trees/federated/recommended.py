"""Which private model a declared table gets where its owner names an epsilon and no model.

A table of regions, by declared facts alone: columns, classes, clients, whose noise protects, epsilon, and the records
of all clients where ``gate.max_examples`` bounds them. No row is looked at, so the choice costs no epsilon. *Signal* is
epsilon times records over the root of the clients that add noise of their own: the records, in deviations of the noise
of their sum. How the regions were found, and judged on other tables: `experiments/private_trees/README.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedlearn.config import RunConfig
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.data.data_folder import no_downloads
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.private_examples import DataSource, Protected

NAMES_ONE = {"model.name", "model.options", "strategy.name", "training.learner", "privacy.protects"}
LEAST = 60.0  # signal of a number as target below which the median of all is hidden, too
LEAST_OF_CLASSES = 20.0  # of classes: their counts need less
MANY_CLASSES = 5
MOST_TURNS = 100  # clients, and so rounds, of a relay


@dataclass(frozen=True, slots=True)
class Facts:
    """What is declared of a table and its run.

    Parameters
    ----------
    columns, classes : int
        Number of features, and of classes; 0 classes of a number as target.
    clients : int
        Number of clients.
    epsilon : float
        Budget of a record.
    distributed : bool, default=False
        Whether the sum of all clients has the noise of one.
    records : int, optional
        Most records of all clients together; None: not declared.

    Examples
    --------
    >>> Facts(8, 0, clients=25, epsilon=1.0, records=1000).signal
    200.0
    """

    columns: int
    classes: int
    clients: int
    epsilon: float
    distributed: bool = False
    records: int | None = None

    @classmethod
    def of(cls, table: TableSchema, config: RunConfig) -> Facts:
        """Return the facts of a run on a table."""
        most, preset = config.gate.max_examples, RunConfig().gate.max_examples
        return cls(
            len(table.features), len(table.classes), config.clients, config.privacy.epsilon,
            distributed=config.privacy.trust == "distributed",
            records=None if most == preset else most * config.clients,
        )  # fmt: skip

    @property
    def signal(self) -> float | None:
        """Records of all clients, in deviations of the noise of their sum; None if their number is not declared."""
        return None if self.records is None else self.epsilon * self.records / math.sqrt(self.noises)

    @property
    def noises(self) -> int:
        """Number of clients whose own noise is in a sum."""
        return 1 if self.distributed else self.clients

    def has(self, signal: float) -> bool:
        """Return whether declared records have at least this signal; not if none are declared."""
        return self.signal is not None and self.signal >= signal


class Region(NamedTuple):
    """A model, the facts for which it is recommended, and why."""

    model: str
    holds: Callable[[Facts], bool]
    why: str


REGIONS = (
    Region("dp-boosting", lambda facts: facts.distributed, "only a model of sums gains by distributed noise"),
    Region(
        "dp-boosting", lambda facts: facts.has((100 if facts.classes else 2000) * facts.columns),
        "the declared records stand out of the noise in the sums of every column",
    ),
    Region(
        "dp-random-forest", lambda facts: facts.classes >= MANY_CLASSES,
        "of many classes, counts in random leaves need the least budget",
    ),
    Region(
        "dp-classifier", lambda facts: facts.classes > 0,
        "small trees that vote lose least with few records; with many dp-boosting is better: declare gate.max_examples",
    ),
    Region(
        "dp-relay", lambda facts: facts.clients <= MOST_TURNS,
        "each client improves the trees of those before; dp-forest takes one round and is a little worse",
    ),
    Region("dp-forest", lambda facts: True, f"a relay of more than {MOST_TURNS} clients takes as many rounds"),
)  # fmt: skip
"""The first whose facts hold is recommended."""


def recommended(facts: Facts) -> Region:
    """Return the model that a table gets.

    >>> recommended(Facts(8, 0, clients=25, epsilon=1.0)).model, recommended(Facts(8, 10, clients=1, epsilon=1.0)).model
    ('dp-relay', 'dp-random-forest')

    Raises
    ------
    SettingError
        If so few records are declared that no private model of ours predicts better than a constant.
    """
    least = LEAST_OF_CLASSES if facts.classes else LEAST
    if facts.records is not None and not facts.has(least):
        needed = least * math.sqrt(facts.noises) / facts.records
        raise SettingError(
            "privacy.epsilon", facts.epsilon,
            f"{facts.clients} clients with {facts.records} records at most (gate.max_examples): no private model "
            f"predicts better than a constant: take {needed:.2g} or more, or name a model",
        )  # fmt: skip
    return next(each for each in REGIONS if each.holds(facts))


def recommended_for(flat: Mapping[str, Any], config: RunConfig) -> Region | None:
    """Return what a run gets that names a declared table, an epsilon and no model; None of other runs."""
    if "privacy.epsilon" not in flat or "data.dataset" not in flat or NAMES_ONE & flat.keys():
        return None
    table = None
    with suppress(FedlearnError), no_downloads():  # the run says what is wrong with its data
        found = DataSource(config.data.dataset, config.data.dir, config.data.options).read(Protected.RECORDS)
        table = None if found.counted else found.schema
    return None if table is None or table.targets else recommended(Facts.of(table, config))
