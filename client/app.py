"""The ClientApp: what a node does with each message of the server, and what a server asks before round 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from client.examples import check_outputs_on_nodes, empty_nodes, partitions_of
from client.handlers.training import fits_together, train
from client.isolated_fits import KEPT, fits_of, why_not_stacked
from client.owner.error_disclosure import Withheld, is_private, wait_for_a_whole_second
from client.request import Request, at_home
from fedlearn import wire
from fedlearn.config import RunConfig, from_flower
from fedlearn.core.client_facts import NodeTraits, NodeTrial
from fedlearn.core.refusals import NOT_READY
from fedlearn.core.state import State
from fedlearn.data.cache import checked
from fedlearn.data.dealing import dealt_to
from fedlearn.flower import ErrorCode
from fedlearn.models.loaded import loaded
from fedlearn.models.model import Scored
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import HANDLERS

T = TypeVar("T")
Handler = Callable[[Request], Message]


def _client_app() -> ClientApp:
    """Return Flower's app with a function for each type of message that has a handler."""
    made = ClientApp()
    for message_type in HANDLERS:
        category, _, action = message_type.partition(".")
        register = getattr(made, category)
        (register(action) if action else register())(partial(_handled_by, message_type))
    return made


def _handled_by(message_type: str, message: Message, context: Context) -> Message:
    return _answered(Request.of(message, context), load_reference(HANDLERS[message_type]))


def _answered(request: Request, handler: Handler) -> Message:
    """Return the reply of a handler; in a box, where the server sent boxes, as it then can open them."""
    try:
        reply = handler(request)
    except Withheld as refusal:
        if not request.is_real:
            raise
        reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(refusal)), reply_to=request.message)
    if request.is_real and wire.read_ready_answer(reply)[1] == NOT_READY:
        wait_for_a_whole_second(request)
    if request.is_boxed and reply.has_content():
        wire.box(reply.content)
    return reply


app = _client_app()


def handle_many(calls: Sequence[tuple[Message, Context]]) -> Iterator[Message | BaseException]:
    """Yield the reply to each of several training messages, or what its node raises.

    The nodes are trained in one computation, where that can be done (``training.stack``); all else is done for each
    message as `app` does it.
    """
    requests = [_outcome(Request.of, message, context) for message, context in calls]
    fits = fits_together([request for request in requests if isinstance(request, Request)])
    for request in requests:
        if isinstance(request, Request):
            yield _outcome(_answered, request, partial(train, fit=fits.get(request)))
        else:
            yield request


def _outcome(function: Callable[..., T], *given: Any) -> T | BaseException:
    """Return what a function returns or raises; only Ctrl-C is not of a node."""
    try:
        return function(*given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error


def prepare(run_config: Mapping[str, Any]) -> None:
    """Make what a process makes once for a run: data, model, learner, partitions. A warm executor forks after it.

    The checksums of what this machine's cache holds are compared. The model is made on the CPU: what was begun on a
    GPU cannot be forked.
    """
    config = from_flower(at_home(run_config))
    with checked():
        fits_of(config)
        partitions_of(config)


def _question(answer: Callable[[RunConfig], T]) -> Callable[[Mapping[str, Any], State], T]:
    """Return the function that a server has computed: it gives the flat settings and a state, which does not matter."""
    return wraps(answer)(lambda settings, state: answer(from_flower(settings)))


@_question
def about(config: RunConfig) -> NodeTraits:
    """Return what a server needs to know of the nodes of a run."""
    return NodeTraits(is_private=is_private(config))


@_question
def trial(config: RunConfig) -> NodeTrial:
    """Make the learner, try a fit, look at the partitions: what is wrong is said before round 1, not by every node."""
    dataset, model = loaded(config)
    fits = fits_of(config)
    why_not = why_not_stacked(config) if config.training.stack > 1 else ""
    if is_private(config):
        return NodeTrial((), why_not)
    if isinstance(model, Scored) and (config.evaluation.nodes or config.evaluation.where == "nodes"):
        check_outputs_on_nodes(model, config)
    fits.try_learner(dataset.train)
    names = fits.tried(model.initial_state(seed=config.seed), dataset.train)
    notes = (*([KEPT.format(names=names)] if names else []), *fits.learner.notes(), *empty_nodes(config))
    return NodeTrial(notes, why_not, dealt_to(dataset, partitions_of(config)))
