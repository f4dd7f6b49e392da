"""What a node says of its failures where its examples are private: one of few fixed words.

The text of an error may hold what a cell held, and the server writes it down. So a node of a private model, or one that
holds its own data, says one of the words below, or a reason of `fedlearn.words.errors.Refused`. The rest stands in its
own log. Whether it fails depends on no example: a cell of a declared table that cannot be read is missing, a row
without a declared target is left out, and no row at all is allowed. The counts of these stand in the node's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from client.learners import LEARNERS
from client.visit import Visit
from fedlearn.config import RunConfig, per_run
from fedlearn.models import model_spec
from fedlearn.models.loaded import loaded
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.words.errors import BudgetExceeded, FedlearnError, Refused

log = logging.getLogger("fedlearn.node")

BUDGET_SPENT = "budget-spent"
LEDGER_DAMAGED = "ledger-damaged"
DATA_UNREADABLE = "data-unreadable"
NODE_FAILED = "node-failed"
NOT_MEASURED = "private-model"


class Withheld(FedlearnError):
    """A failure that a node names by a word alone; the word does not depend on its examples."""


@per_run
def is_private(config: RunConfig) -> bool:
    """Return whether nodes keep all about their examples to themselves but what their budget pays for.

    The model says so, or the learner: one from outside may learn any model.
    """
    if model_spec(config.model.name).is_private:
        return True
    model = loaded(config)[1]
    learner = LEARNERS.load(config.training.learner or model.learner)
    return model.metrics.privacy_loss is not None or getattr(learner, "is_private", False)


@contextmanager
def discreet(visit: Visit) -> Iterator[None]:
    """Say a word instead of the text of an error that the block raises, if the node keeps something to itself."""
    config = visit.config
    if not (visit.holds_own_data or is_private(config)):  # which reads the data
        yield
        return
    try:
        loaded(config)
        if visit.holds_own_data:
            _say_to_owner(config)
    except Exception as error:
        raise _withheld(DATA_UNREADABLE, error) from None
    try:
        yield
    except Withheld:
        raise
    except BudgetExceeded as error:
        raise _withheld(BUDGET_SPENT, error) from None
    except LedgerDamaged as error:
        raise _withheld(LEDGER_DAMAGED, error) from None
    except Refused as error:  # of what the server sent
        raise _withheld(error.reason, error) from None
    except Exception as error:
        raise _withheld(NODE_FAILED, error) from None


@per_run
def _say_to_owner(config: RunConfig) -> None:
    """Write into the node's own log, once for a run, what in its table is not as it was declared."""
    for line in loaded(config)[0].owner_notices:
        log.warning("%s", line)


def _withheld(word: str, error: Exception) -> Withheld:
    log.error("said to the server %r: %s", word, error, exc_info=error)
    return Withheld(word)
