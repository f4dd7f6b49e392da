"""Which private model a declared table gets where its owner names an epsilon and no model.

Regions, by declared facts alone: classes, clients, whose noise protects, epsilon, and the records of all clients where
``gate.max_examples`` bounds them. No row is looked at, so the choice costs no epsilon. How the regions were found, by
accuracy and absolute error on ten tables, and judged on others: `experiments/private_trees/README.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from fedlearn.config import RunConfig
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.data.data_folder import no_downloads
from fedlearn.data.data_spec import TableSchema
from fedlearn.data.private_examples import DataSource, Protected

NAMES_ONE = {"model.name", "model.options", "strategy.name", "training.learner", "privacy.protects"}
WIDE = 0.04  # budget below which trees of two levels lost to a constant on some table
LEAST, LEAST_OF_NUMBERS = 100.0, 1000.0  # signal below which all models lost, the second of a number at a small budget
SEVERAL = 10  # clients whose trees are enough together, if each grows one
MOST_TURNS = 100  # clients, and so rounds, of a relay


class Facts(NamedTuple):
    """What is declared of a table and its run.

    >>> Facts(2, clients=25, epsilon=1.0, records=1000).signal
    200.0
    """

    classes: int  # 0 of a number as target
    clients: int
    epsilon: float  # budget of a record
    distributed: bool = False  # whether the sum of all clients has the noise of one
    records: int | None = None  # most records of all clients together; None: not declared

    @classmethod
    def of(cls, table: TableSchema, config: RunConfig) -> Facts:
        """Return the facts of a run on a table."""
        most, preset, trust = config.gate.max_examples, RunConfig().gate.max_examples, config.privacy.trust
        records = None if most == preset else most * config.clients
        return cls(len(table.classes), config.clients, config.privacy.epsilon, trust == "distributed", records)

    @property
    def budget(self) -> float:
        """Epsilon of a sum: that of one client, over the root of the clients that add noise of their own."""
        return self.epsilon / math.sqrt(1 if self.distributed else self.clients)

    @property
    def signal(self) -> float:
        """Budget times records; 0 if their number is not declared."""
        return self.budget * (self.records or 0)


class Region(NamedTuple):
    """A model, the facts for which it is recommended, why, and its ``model.options``."""

    model: str
    holds: Callable[[Facts], bool]
    why: str
    options: str = ""


SUMS = (
    Region("dp-boosting", lambda facts: facts.distributed, "only a model of sums gains by distributed noise"),
    Region(
        "dp-boosting", lambda facts: facts.signal >= {0: 18_000, 2: 3500}.get(facts.classes, math.inf),
        "the declared records stand out of the noise",
    ),
)  # fmt: skip
OF_CLASSES = (
    *SUMS,
    Region(
        "dp-classifier", lambda facts: facts.classes == 2 and (facts.budget >= WIDE or facts.signal >= 150),
        "small trees that vote lose least to noise; if gate.max_examples declares many records, dp-boosting is taken",
    ),
    Region(
        "dp-random-forest", lambda facts: facts.budget < WIDE,
        "so small an epsilon over so many clients is worth one question", '{"max_depth": 1, "n_estimators": 1}',
    ),
    Region(
        "dp-random-forest", lambda facts: facts.clients >= SEVERAL,
        "counts in random leaves need the least budget, and a tree a client is enough",
        '{"max_depth": 2, "n_estimators": 1}',
    ),
    Region("dp-random-forest", lambda facts: True, "of several classes, counts in random leaves need the least budget"),
)  # fmt: skip
OF_NUMBERS = (
    *SUMS,
    Region(
        "dp-forest", lambda facts: 0 < facts.signal < 300 or facts.clients > MOST_TURNS,
        "one round: the declared records are few, or turns of the clients would be many",
    ),
    Region("dp-relay", lambda facts: True, "each client improves the trees of those before it"),
)  # fmt: skip
"""The first whose facts hold is recommended."""


def recommended(facts: Facts) -> Region:
    """Return the model that a table gets.

    >>> recommended(Facts(0, clients=25, epsilon=1.0)).model, recommended(Facts(10, clients=1, epsilon=1.0)).model
    ('dp-relay', 'dp-random-forest')

    Raises
    ------
    SettingError
        If the noise may hide all there is: of so few records as are declared, or of any number while none is.
    """
    least = LEAST_OF_NUMBERS if facts.budget < WIDE and not facts.classes else LEAST
    if facts.budget < WIDE if facts.records is None else facts.signal < least:
        what = "there is: declare the most records of a client" if facts.records is None else "so few records say"
        why = f"noise of {facts.clients} clients may hide all {what} (gate.max_examples), raise it, or name a model"
        raise SettingError("privacy.epsilon", facts.epsilon, why)
    return next(each for each in (OF_CLASSES if facts.classes else OF_NUMBERS) if each.holds(facts))


def recommended_for(flat: Mapping[str, Any], config: RunConfig) -> Region | None:
    """Return what a run gets that names a declared table, an epsilon and no model; None of other runs."""
    if "privacy.epsilon" not in flat or "data.dataset" not in flat or NAMES_ONE & flat.keys():
        return None
    table = None
    with suppress(FedlearnError), no_downloads():  # the run says what is wrong with its data
        found = DataSource(config.data.dataset, config.data.dir, config.data.options).read(Protected.RECORDS)
        table = None if found.counted else found.schema
    return None if table is None or table.targets else recommended(Facts.of(table, config))
