"""Whether the owner has agreed to a run: it is shown as a page of plain words before the node takes part.

``fedlearn client --ask FOLDER`` puts the folder into the node's config, which no server can set. Until the page of a
run is answered the node is not ready for it, in the bytes of every other reason, and the run goes on without it. The
answer is the owner's alone: it depends on nothing that the data say. What the owner's policy refuses is refused before,
and shown on no page. A run that names code of no table of ours is refused: no page could say what it does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from client.owner.owner_refusals import CODE_NOT_ALLOWED, POLICY_UNREADABLE, asks_ours, names_code
from client.request import Request
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.policy import Policy
from fedlearn.config.tables.running_settings import DEVICE_SETTING
from fedlearn.core.errors import UsageError, printable
from fedlearn.models import MODELS, model_spec
from fedlearn.plugins.own_packages import own_files
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.agreements import NO, SHORT, Agreements

ASK = "ask"  # name in the config of a node
NOT_AGREED = "not-agreed"
LEFT_OPEN = ("seed", "out")  # settings that may differ within a study
LONGEST = 200  # letters of a value on a page

log = logging.getLogger("fedlearn.node")


def not_agreed(request: Request) -> str:
    """Return the reason why the owner has not agreed to a run; empty where he has, or is not asked."""
    if not (folder := request.context.node_config.get(ASK)):
        return ""
    config = request.config
    if config.model.name not in MODELS or names_code(config) or config.client.mods or not asks_ours(request):
        return CODE_NOT_ALLOWED
    run, study = ids_of(config)
    try:
        kept = Agreements(Path(str(folder)))
        answer = kept.answer_to(run, study)
        if not answer and config.model.name in _agreed(request):
            return "" if kept.agree_by_policy(run, study, page_of(config)) else NOT_AGREED
        if not answer:
            kept.announce(run, study, page_of(config))
            log.warning("run %s waits for the owner: fedlearn agree %s", run, folder)
    except (LedgerDamaged, UsageError, OSError) as error:
        log.error("%s: %s", folder, error)
        return POLICY_UNREADABLE
    return "" if answer and answer != NO else NOT_AGREED


def _agreed(request: Request) -> tuple[str, ...]:
    config = request.context.node_config
    return Policy.of_node(config).agreed if config.get("ledger") else ()


def ids_of(config: RunConfig) -> tuple[str, str]:
    """Return the digests of a run and of its study: of this version and of all settings, and without `LEFT_OPEN`."""
    plain = {name: value for name, value in to_flower(config).items() if name != DEVICE_SETTING}
    study = {name: value for name, value in plain.items() if name not in LEFT_OPEN}
    return _digest(plain), _digest(study)


def _digest(plain: Mapping[str, object]) -> str:
    whole = json.dumps([_version(), plain], sort_keys=True, default=str).encode()
    return sha256(whole).hexdigest()[:SHORT]


def page_of(config: RunConfig) -> str:
    """Return the page of a run: what is learned, what leaves, what it costs, who sees it, and all settings."""
    run, _ = ids_of(config)
    rounds = config.rounds.total
    weights = config.model.initial_sha256 or "new ones, by the seed" * (not config.model.initial) or "not said"
    lines = {
        "Run": run,
        "Model": f"{config.model.name}, {rounds} rounds, at most {config.clients} clients",
        "Data": f"{config.data.dataset or 'the data of this client'}",
        "Code": f"fedlearn {_version()}, SHA-256 {_code()}; no other code",
        "Base weights": weights,
        "What leaves": _leaves(config),
        "What it costs": _costs(config),
        "Who sees it": _seen(config),
    }
    shown = "\n".join(f"{name}: {_short(value)}" for name, value in lines.items())
    settings = "\n".join(f"  {name} = {_short(json.dumps(value))}" for name, value in to_flower(config).items())
    return f"{shown}\n\nAll settings:\n{settings}\n"


def _leaves(config: RunConfig) -> str:
    kind = "numbers computed from the records" if model_spec(config.model.name).sums else "a changed model"
    size = f", coded by {config.compression.codec}" if config.compression.codec != "identity" else ""
    return f"{kind}, once a round{size}; counts and metrics where the settings ask for them; no record"


def _costs(config: RunConfig) -> str:
    privacy = config.privacy
    if model_spec(config.model.name).is_private:
        return f"epsilon {privacy.epsilon:g} of the ledger for the whole run"
    if config.protects_records or config.nodes_add_noise:
        return f"Gaussian noise, multiplier {privacy.noise_multiplier:g}, at delta {privacy.delta:g}, from the ledger"
    return "no privacy budget: nothing limits what the answers reveal of a record"


def _seen(config: RunConfig) -> str:
    if config.secure.sums == "masked":
        return "the server sees the sum of the clients that take part; all clients see the model"
    return "the server sees what this client sends; all clients see the model"


@cache
def _code() -> str:
    return sha256(b"".join(path.read_bytes() for _, path in sorted(own_files().items()))).hexdigest()


def _version() -> str:
    return str(import_module("fedlearn").__version__)


def _short(value: str) -> str:
    return printable(value if len(value) <= LONGEST else f"{value[:LONGEST]}...")
