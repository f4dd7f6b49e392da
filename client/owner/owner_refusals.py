"""What a node refuses because its owner has said so, whatever a server asks; and the reason for each refusal.

A node with a ledger has a policy (`fedlearn.config.policy`). What is beyond it is refused at the ready query and at
every other message, before anything is loaded. The node's log has the reason; a server gets a word of
`fedlearn.core.refusals`, which is ``not-ready`` for all of these but those that are marked as public.

| reason | refused because | public |
|---|---|---|
| ``model-not-allowed`` | the owner does not allow this model | yes |
| ``code-not-allowed`` | a setting or a message names an object that is in no table of ours, and may be code | yes |
| ``noise-not-secure`` | noise would be seeded | yes |
| ``sizes-not-public`` | the number of records would be published | yes |
| ``trust-not-allowed`` | noise would be distributed, and no secure sum among listed peers hides this share | yes |
| ``no-memory-folder`` | the run needs what a node keeps (its part in a secure sum, say), and it has no folder | yes |
| ``sums-not-masked`` | the owner lists peers: the node takes part in secure sums alone | yes |
| ``sets-not-remembered`` | sums would be exact, and the node lists no peers or has no ledger | yes |
| ``rows-chosen`` | sums would be exact, and a setting would choose or cut what a node adds | yes |
| ``bins-not-declared`` | sums would be exact, in other bins than the owner has declared | yes |
| ``group-not-allowed`` | sums would be exact, by groups of a column by which the owner allows none | yes |
| ``private-model`` | the model is private, and is not measured on nodes | yes |
| ``data-not-allowed`` | the data lie outside of the node's data folder, or are not what the owner has declared | |
| ``epsilon-too-large`` | a run may not spend so much | |
| ``delta-too-large`` | a run may not have such a delta, as with Gaussian noise | |
| ``not-in-these-hours`` | the owner allows other hours of the day | |
| ``policy-unreadable`` | what the owner has said cannot be read | |
| ``no-ledger`` | the model is private, the data are the node's own, and it has no ledger | |
| ``not-enough-records`` | there are fewer records than the owner asks for | |
| ``budget-spent`` | all that may be spent is spent | |
| ``ledger-damaged`` | the ledger does not hold what was written | |

`AS_IF_LOADED` are refused after the data are loaded, as the last four are, so that the time of an answer says no more
than its word.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from flwr.app import MessageType

from client.owner.peers import colluders_of, lists_peers
from client.owner.signed_sets import bins_of, chooses_rows, groups_of, may_sum_exactly, sums_exactly
from client.request import Request
from fedlearn import wire
from fedlearn.compression import is_ours, words_in
from fedlearn.config import RunConfig, per_run, to_flower
from fedlearn.config.policy import Policy
from fedlearn.config.schema import DP_SGD
from fedlearn.core.errors import UsageError
from fedlearn.core.refusals import REFUSALS
from fedlearn.data.data_folder import data_folder
from fedlearn.data.loading import DATASETS
from fedlearn.data.naming import is_path
from fedlearn.models import MODELS, model_spec
from fedlearn.privacy import largest_loss

POLICY_UNREADABLE = "policy-unreadable"
MODEL_NOT_ALLOWED = "model-not-allowed"
CODE_NOT_ALLOWED = "code-not-allowed"
EPSILON_TOO_LARGE = "epsilon-too-large"
DELTA_TOO_LARGE = "delta-too-large"
NOISE_NOT_SECURE = "noise-not-secure"
DATA_NOT_ALLOWED = "data-not-allowed"
SIZES_NOT_PUBLIC = "sizes-not-public"
TRUST_NOT_ALLOWED = "trust-not-allowed"
NO_MEMORY = "no-memory-folder"
SUMS_NOT_MASKED = "sums-not-masked"
SETS_NOT_REMEMBERED = "sets-not-remembered"
ROWS_CHOSEN = "rows-chosen"
BINS_NOT_DECLARED = "bins-not-declared"
GROUP_NOT_ALLOWED = "group-not-allowed"
NOT_IN_THESE_HOURS = "not-in-these-hours"
NOT_MEASURED = "private-model"
NOT_ENOUGH = "not-enough-records"
AS_IF_LOADED = {EPSILON_TOO_LARGE, DELTA_TOO_LARGE, NOT_IN_THESE_HOURS}
NO_CODEC = "identity"
CHAINS = {"compression.codec", "compression.downlink"}  # in them a colon stands before an argument, too
PLAIN = {"out", "data.dir", "data.notice", "data.scaling", "engine.options", "engine.device", "model.name"}
"""Settings in which a colon names no code: texts, and the model, which is compared with those that the owner allows."""

log = logging.getLogger("fedlearn.node")


def refused(request: Request) -> str:
    """Return the reason why the owner, or every real node, does not do what is asked; empty where all is allowed.

    What is public comes first, so that no other reason shows by taking its place.
    """
    if _is_strange(request):
        return MODEL_NOT_ALLOWED
    if request.config.privacy.trust == "distributed" and request.is_real and not _hides_its_share(request):
        return TRUST_NOT_ALLOWED
    is_masked = request.config.secure.sums == "masked"
    must_keep = bool(request.config.training.personal) or request.config.separates_nodes or is_masked
    if must_keep and request.is_real and not request.context.node_config.get("memory"):
        return NO_MEMORY
    is_evaluation = request.message.metadata.message_type.partition(".")[0] == MessageType.EVALUATE
    if lists_peers(request) and (not is_masked or is_evaluation):
        return SUMS_NOT_MASKED
    if request.is_real and sums_exactly(request.config) and not may_sum_exactly(request):
        return SETS_NOT_REMEMBERED
    if request.is_real and sums_exactly(request.config) and chooses_rows(request.config):
        return ROWS_CHOSEN
    policy, reason = None, ""
    if request.context.node_config.get("ledger"):
        try:
            policy = Policy.of_node(request.context.node_config)
            reason = ("" if asks_ours(request) else CODE_NOT_ALLOWED) or beyond(policy, request.config)
            if not reason and request.holds_own_data and not _is_declared(policy, request.config):
                reason = DATA_NOT_ALLOWED
        except UsageError as error:
            log.error("%s", error)
            return POLICY_UNREADABLE
    if reason in REFUSALS:
        return reason
    config = request.config
    if is_evaluation and (model_spec(config.model.name).is_private or _is_paid(config)):
        return NOT_MEASURED
    return reason or ("" if policy is None or is_in(policy.hours, datetime.now()) else NOT_IN_THESE_HOURS)


def _is_strange(request: Request) -> bool:
    """Return whether a policy allows no such model, and it is in no table: to read its row may import it."""
    config = request.context.node_config
    if not config.get("ledger") or request.config.model.name in MODELS:
        return False
    with suppress(UsageError):  # said below
        return request.config.model.name not in Policy.of_node(config).models
    return True


def _hides_its_share(request: Request) -> bool:
    """Return whether the node's report is masked among peers that its owner lists: its noise may then be a share.

    The noise must be calibrated without the shares of as many colluders as the owner expects.
    """
    secure = request.config.secure
    return secure.sums == "masked" and lists_peers(request) and secure.colluders >= colluders_of(request)


def beyond(policy: Policy, config: RunConfig) -> str:
    """Return the reason why a server's settings are beyond a policy, public ones first; empty where they are within."""
    name, privacy = config.model.name, config.privacy
    is_known_as_private = name in MODELS and (MODELS[name].is_private or _is_paid(config))
    if name not in policy.models and (policy.models or not is_known_as_private):
        return MODEL_NOT_ALLOWED
    if config.training.learner not in ("", DP_SGD) or config.client.mods or names_code(config):
        return CODE_NOT_ALLOWED
    if sums_exactly(config) and bins_of(config) not in (None, policy.bins):
        return BINS_NOT_DECLARED
    if sums_exactly(config) and policy.groups and not groups_of(config) <= set(policy.groups):
        return GROUP_NOT_ALLOWED
    may_be_private = is_known_as_private or name not in MODELS
    if may_be_private:
        is_coded_down = config.compression.downlink != NO_CODEC
        if config.compression.codec != NO_CODEC or (is_coded_down and not config.protects_records):
            return CODE_NOT_ALLOWED  # a state that is trained in steps may come coded: a server may send any
        if privacy.noise == "seeded" and not policy.seeded_noise:
            return NOISE_NOT_SECURE
        if privacy.public_sizes and not policy.public_sizes:
            return SIZES_NOT_PUBLIC
    if config.data.dir or not _is_at_home(config.data.dataset):
        return DATA_NOT_ALLOWED
    if not may_be_private:
        return ""
    if config.data.options and policy.least_records:  # of shares, too: by another target a server could count the rows
        return DATA_NOT_ALLOWED
    loss = largest_loss(privacy.epsilon, privacy)
    if loss.epsilon > min(policy.most_of_a_run, policy.largest_epsilon):
        return EPSILON_TOO_LARGE
    return DELTA_TOO_LARGE if _is_paid(config) and privacy.delta > policy.delta else ""


def _is_paid(config: RunConfig) -> bool:
    """Return whether a network's training is paid for from the ledger, by Gaussian noise."""
    return config.protects_records or config.nodes_add_noise


def _is_declared(policy: Policy, config: RunConfig) -> bool:
    """Return whether the data of a node with own data are what its owner has declared, or come with fedlearn.

    From which file, column and class a server asks would tell of records: already whether the node is ready does.
    """
    return bool(policy.declared) or (config.data.dataset in DATASETS and not config.data.options)


def is_in(hours: str, now: datetime) -> bool:
    """Return whether a time of day lies in hours, the end excluded, which may lie on the next day; always in none.

    >>> [is_in("20:00-06:00", datetime(2026, 1, 1, hour, 0)) for hour in (19, 20, 5, 6)]
    [False, True, True, False]
    """
    begin, _, end = hours.partition("-")
    time = f"{now:%H:%M}"
    return begin <= time < end if begin < end else not hours or time >= begin or time < end


def names_code(config: RunConfig) -> bool:
    """Return whether any setting names what may be code: a reference, ``module:name``, that is in no table of ours.

    Every setting is looked at, so one that is new is, too; whether a node or the server alone would load it.
    """
    return bool(named_code(config))


@per_run
def named_code(config: RunConfig) -> list[str]:
    """Return what may be code in the settings, the model aside: a reference each, or a text that holds one."""
    return [
        ":".join(word.split(":")[:2]) if setting in CHAINS else word
        for setting, value in to_flower(config).items()
        if isinstance(value, str) and setting not in PLAIN
        for text in _texts_in(value)
        for word in (words_in(text) if setting in CHAINS else [each.strip() for each in text.split(",")])
        if (not is_ours(word) if setting in CHAINS else ":" in word)
    ]


def _texts_in(value: str) -> Iterator[str]:
    """Yield the texts of a setting: itself, or all that stand in the JSON table or list that it holds."""
    try:
        left: list[Any] = [json.loads(value)]
    except (ValueError, RecursionError):
        left = [value]
    while left:
        match left.pop():
            case dict() as table:
                left += [*table, *table.values()]
            case list() as listed:
                left += listed
            case str() as text:
                yield text


def asks_ours(request: Request) -> bool:
    """Return whether all codecs that a message asks for are ours: a strategy names those of parcels in the message."""
    return all(is_ours(chain) for chain in wire.wanted_parcels(request.content).values())


def _is_at_home(dataset: str) -> bool:
    """Return whether a data set is one that comes with fedlearn, or lies in the node's data folder, links followed."""
    if not is_path(dataset):
        return True
    folder, _ = data_folder("", wanted=dataset)
    try:
        path = Path(dataset).expanduser()
    except RuntimeError:  # there is no such user, which is nothing to tell a server
        return False
    if folder is not None and not path.is_absolute() and not path.exists():  # it is looked for here first
        path = folder / path
    return folder is not None and path.resolve().is_relative_to(folder.resolve())
