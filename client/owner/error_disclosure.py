"""What a node says of its failures where its examples are private: one of few fixed words.

The text of an error may hold what a cell held, and the server writes it down. So a node of a private model, or one that
holds its own data or has a ledger, says a word: on a network one of `fedlearn.core.refusals`, which is ``not-ready``
for all that depends on data, budget, counts or hours, also where the server's own message was wrong, as a node finds
that only when its data are loaded. In a simulation, where no data are an owner's, it says the reasons below, or one of
`fedlearn.core.errors.Refused`. The text stands in the node's own log. Whether it fails depends on no example: a cell
of a declared table that cannot be read is missing, a row without a declared target is left out, and no row at all is
allowed. The counts of these stand in the node's own log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from client.learners import LEARNERS
from client.request import Request
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import BudgetExceeded, FedlearnError, Refused
from fedlearn.core.refusals import word_for
from fedlearn.models import model_spec
from fedlearn.models.loaded import loaded
from fedlearn.privacy.ledger_lines import LedgerDamaged

log = logging.getLogger("fedlearn.node")

BUDGET_SPENT = "budget-spent"
LEDGER_DAMAGED = "ledger-damaged"
DATA_UNREADABLE = "data-unreadable"
NODE_FAILED = "node-failed"
WHOLE = 1.0  # seconds


class Withheld(FedlearnError):
    """A failure that a node names by a word alone; the word does not depend on its examples."""


@per_run
def is_private(config: RunConfig) -> bool:
    """Return whether nodes keep all about their examples to themselves but what their budget pays for.

    The model says so, or the learner: one from outside may learn any model. So do nodes that add noise themselves.
    """
    if model_spec(config.model.name).is_private or config.nodes_add_noise:
        return True
    model = loaded(config)[1]
    learner = LEARNERS.load(config.training.learner or model.learner)
    return model.metrics.privacy_loss is not None or getattr(learner, "is_private", False)


@contextmanager
def discreet(request: Request) -> Iterator[None]:
    """Say a word instead of the text of an error that the block raises, if the node keeps something to itself."""
    config = request.config
    has_owner = request.holds_own_data or bool(request.context.node_config.get("ledger"))
    if not (has_owner or is_private(config)):  # which reads the data
        yield
        return
    try:
        loaded(config)
        if request.holds_own_data:
            _say_to_owner(config)
    except Exception as error:
        raise withheld(request, DATA_UNREADABLE, error) from None
    try:
        yield
    except Withheld as refusal:
        raise withheld(request, str(refusal)) from None
    except BudgetExceeded as error:
        raise withheld(request, BUDGET_SPENT, error) from None
    except LedgerDamaged as error:
        raise withheld(request, LEDGER_DAMAGED, error) from None
    except Refused as error:  # of what the server sent
        raise withheld(request, error.reason, error) from None
    except Exception as error:
        raise withheld(request, NODE_FAILED, error) from None


@per_run
def _say_to_owner(config: RunConfig) -> None:
    """Write into the node's own log, once for a run, what in its table is not as it was declared."""
    for line in loaded(config)[0].owner_notices:
        log.warning("%s", line)


def withheld(request: Request, reason: str, error: Exception | None = None) -> Withheld:
    """Return the failure by which a node says a word for a reason, which the node's own log gets whole."""
    word = said_of(request, reason)
    if word != reason or error is not None:
        log.error("said to the server %r: %s", word, f"{reason}: {error}" if error else reason, exc_info=error)
    return Withheld(word)


def wait_for_a_whole_second(request: Request) -> None:
    """Sleep until a whole number of seconds after the message came: what the node has looked at says nothing by time.

    Where loading takes longer than a second, an answer that needs no data can still be seen to come earlier.
    """
    time.sleep(-(time.monotonic() - request.began) % WHOLE)


def said_of(request: Request, reason: str) -> str:
    """Return what a node says for a reason: on a network a word that depends on public settings alone."""
    return word_for(reason) if request.is_real else reason
