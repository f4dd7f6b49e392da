"""Whether the owner has agreed to a run: it is shown as a page of plain words before the node takes part.

``fedlearn client --ask FOLDER`` puts the folder into the node's config, which no server can set. Until the page of a
run is answered the node is not ready for it, in the bytes of every other reason, and the run goes on without it. The
answer is the owner's alone: it depends on nothing that the data say. What the owner's policy refuses is refused before,
and shown on no page. Code of no table of ours runs only if the owner has allowed the SHA-256 of its files, too
(`fedlearn.plugins.allowed_code`); code that cannot be hashed, or that a message names, is refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from client.owner.owner_refusals import CODE_NOT_ALLOWED, POLICY_UNREADABLE, asks_ours, named_code
from client.request import Request
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.policy import Policy
from fedlearn.config.tables.running_settings import DEVICE_SETTING
from fedlearn.core.errors import UsageError, printable
from fedlearn.models import MODELS
from fedlearn.plugins.allowed_code import AllowedCode, code_of_objects
from fedlearn.plugins.own_packages import own_files
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.agreements import NO, SHORT, Agreements

ASK = "ask"  # name in the config of a node
NOT_AGREED = "not-agreed"
LEFT_OPEN = ("seed", "out")  # settings that may differ within a study
LONGEST = 200  # letters of a value on a page

log = logging.getLogger("fedlearn.node")


def unallowed_code(request: Request) -> str:
    """Return the reason why code of no table may not run, and import no other from then on; empty where it may.

    It binds a node whose owner is asked, or whose policy lists code. It is asked before anything that depends on the
    model: what only reads the row of a model may import it.
    """
    folder, names = request.context.node_config.get(ASK), _names_of(request.config)
    try:
        always = _policy(request).code
        if not names or not (folder or always):
            return ""
        code = code_of_objects(names)
        if code is None or (not folder and code.sha256 not in always):
            return CODE_NOT_ALLOWED
        if folder and not (kept := Agreements(Path(str(folder)))).allows(code.sha256, always):
            return _announced(request, kept, code)
    except (LedgerDamaged, UsageError, OSError) as error:
        log.error("%s: %s", folder or "the client's policy", error)
        return POLICY_UNREADABLE
    code.use()
    return ""


def not_agreed(request: Request) -> str:
    """Return the reason why the owner has not agreed to a run; empty where he has, or is not asked."""
    if not (folder := request.context.node_config.get(ASK)):
        return ""
    if reason := unallowed_code(request):
        return reason
    if not asks_ours(request):
        return CODE_NOT_ALLOWED
    config = request.config
    code = code_of_objects(_names_of(config)) if _names_of(config) else None
    run, study = ids_of(config, code)
    try:
        kept = Agreements(Path(str(folder)))
        answer = kept.answer_to(run, study)
        if not answer and config.model.name in _policy(request).agreed:
            return "" if kept.agree_by_policy(run, study, page_of(config, code)) else NOT_AGREED
        if not answer:
            return _announced(request, kept, code)
    except (LedgerDamaged, UsageError, OSError) as error:
        log.error("%s: %s", folder, error)
        return POLICY_UNREADABLE
    return "" if answer != NO else NOT_AGREED


def _announced(request: Request, kept: Agreements, code: AllowedCode | None) -> str:
    """Show the page of a run to the owner; return the reason why the node is not ready."""
    run, study = ids_of(request.config, code)
    kept.announce(run, study, page_of(request.config, code))
    log.warning("run %s waits for the owner: fedlearn agree %s", run[:SHORT], request.context.node_config[ASK])
    return NOT_AGREED


def _names_of(config: RunConfig) -> list[str]:
    """Return the names of all code of no table, the model's among them."""
    return [*named_code(config), *([] if config.model.name in MODELS else [config.model.name])]


def _policy(request: Request) -> Policy:
    """Return the policy of the node, which it has with a ledger; else one that agrees to nothing."""
    config = request.context.node_config
    return Policy.of_node(config) if config.get("ledger") else Policy(largest_epsilon=1.0)


def ids_of(config: RunConfig, code: AllowedCode | None = None) -> tuple[str, str]:
    """Return the digests of a run and of its study: of version, settings and other code, and without `LEFT_OPEN`."""
    plain = {name: value for name, value in to_flower(config).items() if name != DEVICE_SETTING}
    study = {name: value for name, value in plain.items() if name not in LEFT_OPEN}
    return _digest(plain, code), _digest(study, code)


def _digest(plain: Mapping[str, object], code: AllowedCode | None) -> str:
    others = [code.sha256] if code else []
    return sha256(json.dumps([_version(), plain, *others], sort_keys=True, default=str).encode()).hexdigest()


def page_of(config: RunConfig, code: AllowedCode | None = None) -> str:
    """Return the page of a run: what is learned, what leaves, what it costs, who sees it, and all settings."""
    run, _ = ids_of(config, code)
    rounds = config.rounds.total
    weights = config.model.initial_sha256 or "new ones, by the seed" * (not config.model.initial) or "not said"
    lines = {
        "Run": run,
        "Model": f"{config.model.name}, {rounds} rounds, at most {config.clients} clients",
        "Data": f"{config.data.dataset or 'the data of this client'}",
        "Code": f"fedlearn {_version()}, SHA-256 {_code()}{'' if code else '; no other code'}",
        "Other code": f"SHA-256 {code.sha256}, to be allowed, too: {', '.join(code.objects)}" if code else "",
        "Base weights": weights,
        "What leaves": _leaves(config),
        "What it costs": _costs(config),
        "Who sees it": _seen(config),
    }
    shown = "\n".join(f"{name}: {_short(value)}" for name, value in lines.items() if value)
    settings = "\n".join(f"  {name} = {_short(json.dumps(value))}" for name, value in to_flower(config).items())
    files = "".join(f"  {each[:SHORT]} {_short(name)}\n" for name, each in code.sums.items()) if code else ""
    return f"{shown}\n\nAll settings:\n{settings}\n" + (f"\nFiles of the other code:\n{files}" if code else "")


def _leaves(config: RunConfig) -> str:
    kind = "a changed model"
    if row := MODELS.get(config.model.name):  # other code is not imported for its page
        kind = "numbers computed from the records" if row.sums else kind
    size = f", coded by {config.compression.codec}" if config.compression.codec != "identity" else ""
    return f"{kind}, once a round{size}; counts and metrics where the settings ask for them; no record"


def _costs(config: RunConfig) -> str:
    privacy = config.privacy
    if (row := MODELS.get(config.model.name)) and row.is_private:
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
