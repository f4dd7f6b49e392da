"""Writes the API reference, `docs/reference/api`, from the docstrings of what users call and what plugins implement.

    python -m tests.docs.api             # after a change of one of these docstrings or signatures

The pages are Markdown and are tracked, so that they are read in a clone, too; `tests/docs/test_api.py` compares them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pkgutil import resolve_name
from typing import Any, ForwardRef, NamedTuple

from fedlearn import data
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference" / "api"
OURS = ("fedlearn.", "client.", "server.", "strategies.")


class Page(NamedTuple):
    """A page of the reference: its title, its first sentence, and ``module:name`` of what stands on it."""

    title: str
    about: str
    names: tuple[str, ...]


def _of(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}:{name}" for name in names.split())


API = {
    "runs": Page(
        "Runs",
        "This page documents the call that makes a run, and the object that a run is.",
        (
            *_of("fedlearn", "run sweep load compare Run session partitions"),
            "fedlearn.api.sweeping:Sweep",
            "fedlearn.api:runs",
            "fedlearn.report.partitions:Partitions",
            "fedlearn:by_hand",
            "fedlearn.api.rounds:ByHand",
            "server.schedules.by_hand:ClientUpdate",
        ),
    ),
    "data": Page(
        "Data",
        "This page documents how data sets are made from what you have, and the classes of a data set.",
        (
            *_of("fedlearn.data", " ".join(name for name in data.__all__ if name.startswith("from_"))),
            "fedlearn.data:load_dataset",
            *_of("fedlearn.data", "Dataset Examples DataSpec TableSchema"),
        ),
    ),
    "models": Page(
        "Models and losses",
        "This page documents what a model is, its row in the table of models, losses, and compiled layers.",
        (
            *_of("fedlearn.extend", "ModelSpec torch_module Model Evaluation"),
            *_of("fedlearn.extend", "Objective Classification NextToken Regression Labels"),
            *_of("fedlearn.kernels", "fused PooledConv2d"),
        ),
    ),
    "metrics": Page(
        "Metrics",
        "This page documents how metrics are declared.",
        _of("fedlearn.extend", "Metric Combine Metrics Spread"),
    ),
    "learners": Page(
        "Learners",
        "This page documents what a node does to improve the state, and what it keeps.",
        _of("fedlearn.extend", "Learner LocalTask LocalFit SGD Lightning NodeMemory"),
    ),
    "strategies": Page(
        "Strategies and fold steps",
        "This page documents how reports become the next state, and what is done to each before it is added up.",
        _of(
            "fedlearn.extend",
            "RoundStrategy Turn Step MaskedSum FoldStep StepSpec ParcelPlan Accumulator UpdateKind Sends Entries"
            " ArraySpec At Member NodeReport Fate rng_for Refused SettingError",
        ),
    ),
    "codecs": Page(
        "Codecs",
        "This page documents how an update becomes bytes: a codec, and the stages of a chain.",
        _of("fedlearn.extend", "Codec Stage Sparsifier Transform Quantizer Role Part"),
    ),
    "rounds": Page(
        "Schedules, selectors, listeners",
        "This page documents the order of a round, who takes part in it, and who follows a run.",
        (
            *_of("fedlearn.extend", "Schedule Synchronous Selector Participation"),
            *_of("fedlearn.report.listeners", "Listener scalars_of"),
        ),
    ),
    "private_trees": Page(
        "Private trees",
        "This page documents the estimators of pure epsilon, in the manner of scikit-learn, and the forests of runs.",
        (
            *_of(
                "fedlearn.private_trees",
                "DPRegressionForest DPRegressionTree DPEnsembleTree DPVotedForest DPRelayForest DPRelayTree"
                " DPClassificationTree DPRandomForestClassifier PermuteAndFlipForest"
                " DPBoostingClassifier DPBoostingRegressor DPNaiveBayes PrivateSearch Domain NodeTable union",
            ),
            *_of("fedlearn.private_trees.federated.models.fitted", "FittedForest FittedRegressor FittedClassifier"),
        ),
    ),
    "privacy": Page(
        "Privacy",
        "This page documents accounts, noise and mechanisms.",
        (
            *_of(
                "fedlearn.privacy",
                "PrivacyAccountant PrivacySpent SpentLine NeighboringRelation PrivacyUnit Noise secure_noise"
                " seeded_noise laplace geometric gaussian skellam exponential permute_and_flip noisy_quantile"
                " polya_share disjoint_parts largest_loss",
            ),
            *_of(
                "fedlearn.privacy.accounts",
                "GaussianRounds Guarantee RdpFilter epsilon_of epsilons_by_round noise_multiplier_for",
            ),
            *_of("fedlearn.privacy.factorization", "Banded CorrelatedNoise Option options square_root optimal"),
        ),
    ),
}


def page(name: str) -> str:
    """Return the Markdown of a page."""
    title, about, names = API[name]
    lines = [f"# {title}", "", f"{about} It is made from docstrings by `python -m tests.docs.api`."]
    for each in names:
        lines += ["", *_entry(each)]
    return "\n".join(lines) + "\n"


def _entry(reference: str) -> Iterator[str]:
    module, _, name = reference.partition(":")
    found = resolve_name(reference)
    yield f"## {name}"
    yield ""
    yield from _block(f"{module}.{_signature(name, found)}")
    yield ""
    yield from markdown(_doc(found))
    if inspect.isclass(found):
        yield from _attributes(found)
        yield from _members(found)


def _doc(found: Any) -> str:
    """Return the docstring of an object itself, not one that it inherits."""
    doc = found.__dict__.get("__doc__") if inspect.isclass(found) else found.__doc__
    is_made = inspect.isclass(found) and bool(doc) and doc.startswith(f"{found.__name__}(")  # by dataclasses
    return inspect.cleandoc(doc) if doc and not is_made else ""


def _signature(name: str, found: Any, *, width: int = 100) -> str:
    """Return a signature as it is written, in one line or, beyond `width`, with a line for each parameter."""
    if inspect.isclass(found) and (getattr(found, "_is_protocol", False) or issubclass(found, Enum)):
        return name
    signature = inspect.signature(found)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    written = [_parameter(each) for each in parameters]
    keyword = [place for place, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY]
    if keyword and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        written.insert(keyword[0], "*")
    is_said = signature.return_annotation is not signature.empty and not inspect.isclass(found)
    arrow = f" -> {_annotation(signature.return_annotation)}" if is_said else ""
    short = f"{name}({', '.join(written)}){arrow}"
    return short if len(short) <= width else f"{name}(\n    " + ",\n    ".join(written) + f",\n){arrow}"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    text = stars + each.name + ("" if each.annotation is each.empty else f": {_annotation(each.annotation)}")
    if each.default is each.empty:
        return text
    is_member = isinstance(each.default, Enum)
    default = f"{type(each.default).__name__}.{each.default.name}" if is_member else repr(each.default)
    return f"{text} = {default}" if each.annotation is not each.empty else f"{text}={default}"


def _annotation(given: Any) -> str:
    if isinstance(given, ForwardRef):
        return given.__forward_arg__
    return given if isinstance(given, str) else getattr(given, "__name__", str(given))


def _attributes(found: type) -> Iterator[str]:
    """Yield the class attributes that a comment or a text behind them explains, and all members of an enumeration."""
    source = textwrap.dedent(inspect.getsource(found))
    body, lines = ast.parse(source).body[0].body, source.splitlines()  # type: ignore[attr-defined]
    explained = []
    for place, each in enumerate(body):
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        if not isinstance(target, ast.Name) or target.id[0] == "_":
            continue
        following = body[place + 1] if place + 1 < len(body) else None
        is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        comment = lines[each.end_lineno - 1][each.end_col_offset :].partition("#")[2].strip()
        if text := " ".join(following.value.value.split()) if is_text else comment:
            explained.append(f"- `{ast.unparse(each)}`: {_inline(text)}")
        elif issubclass(found, Enum):
            explained.append(f"- `{ast.unparse(each)}`")
    if explained:
        yield from ("", "**Attributes of the class**", "", *explained)


def _members(found: type) -> Iterator[str]:
    """Yield the public methods: in a list where one paragraph says all; what is inherited is said in one line each."""
    listed: dict[str, list[str]] = {"Methods": [], "Inherited": []}
    long: list[str] = []
    seen: set[str] = set()
    for owner in (each for each in found.__mro__ if f"{each.__module__}.".startswith(OURS)):
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if name[0] == "_" or name in seen or not inspect.isfunction(function) or not _doc(function):
                continue
            seen.add(name)
            is_property = isinstance(member, property)
            if is_property and re.search(rf"^{name}\b", _doc(found), flags=re.MULTILINE):
                continue
            line = name if is_property else _signature(name, function, width=1000)
            first, _, rest = _doc(function).partition("\n\n")
            if owner is found and rest:
                shown = name if is_property else _signature(name, function)
                long += ["", f"### {found.__name__}.{name}", "", *_block(shown), "", *markdown(_doc(function))]
            else:
                listed["Methods" if owner is found else "Inherited"].append(f"- `{line}`: {_inline(first)}")
    for title, lines in listed.items():
        if lines:
            yield from ("", f"**{title}**", "", *lines)
    yield from long


def _block(text: str) -> list[str]:
    return ["```text", *text.splitlines(), "```"]


def _inline(text: str) -> str:
    """Return a paragraph in one line, its literals in single quotes."""
    joined = re.sub(r"``(.+?)``", r"`\1`", re.sub(r"\[(\d)\]_", r"[\1]", " ".join(text.split())))
    parts = re.split(r"(`[^`]*`)", joined)
    return "".join(part if part[:1] == "`" else re.sub(r"([<|])", r"\\\1", part) for part in parts)


def markdown(doc: str) -> Iterator[str]:
    """Yield the lines of a docstring of NumPy's form as Markdown."""
    sections = re.split(r"^(\w[\w ]*)\n-+\n", doc, flags=re.MULTILINE)
    yield from _paragraphs(sections[0])
    for title, body in zip(sections[1::2], sections[2::2], strict=True):
        yield from ("", f"**{title}**", "")
        yield from (
            _paragraphs(body)
            if title in ("Examples", "Notes") or (title == "References" and body[:2] != "..")
            else _listed(body, is_typed=title != "Raises")
        )


def _listed(body: str, *, is_typed: bool) -> Iterator[str]:
    """Yield an entry of a list for each parameter, attribute, error or reference."""
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, text = entry.partition("\n")
        if reference := re.match(r"\.\. \[(\d)\] (.*)", head):
            yield f"- [{reference[1]}] {_inline(reference[2] + ' ' + text)}"
            continue
        name, _, kind = head.partition(" : ")
        said = f" ({_inline(kind)})" if kind and is_typed else ""
        yield f"- `{name}`{said}: {_inline(text)}".rstrip(": ")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs, lists and tables as they are, and sessions and indented lines as blocks."""
    for place, part in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if not part.strip():
            continue
        if place:
            yield ""
        lines = part.splitlines()
        if lines[0].startswith((">>>", "    ")):
            yield from _block(textwrap.dedent(re.sub(r"  # doctest:.*", "", part)))
        elif lines[0].startswith("|"):
            yield from (re.sub(r"``", "`", line) for line in lines)
        elif re.match(r"[-*] ", lines[0]):
            yield from (f"- {_inline(each)}" for each in re.split(r"(?:^|\n)[-*] ", part)[1:])
        else:
            yield _inline(re.sub(r"::$", ":", part))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in API:
        (FOLDER / f"{each}.md").write_text(page(each), encoding="utf-8")
