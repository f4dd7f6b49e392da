"""Division of a module's state: what is sent and averaged, what each node keeps for itself, and what stays as it is.

A layer whose parameters do not require gradients is frozen, with its buffers: all nodes make the same numbers of it,
and none is sent. The same holds of a constant, a buffer that no forward pass changes (`fedlearn.models.torch.buffers`).
``training.send`` and ``training.personal`` name parameters and buffers by patterns.

Sources: Arivazhagan et al. 2019 (arXiv:1912.00818), FedPer, for personal layers; Li et al. 2021 (arXiv:2102.07623),
FedBN, for personal norms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from fedlearn.core.errors import SettingError

NORM = "norm"  # the pattern that names the layers of normalization
LAST = "last"  # the pattern that names the last layer
UNFROZEN = "unfrozen"  # the pattern that names what is neither frozen nor constant
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
NAME_OF_A_NORM = re.compile(r"Norm(\dd)?$")  # of classes from elsewhere, as LlamaRMSNorm
NAMED = 6  # names in one line


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a module's state, as names in the order of the module.

    Parameters
    ----------
    shared
        Arrays that are sent and averaged: the state of the run.
    personal
        Arrays that each node trains and keeps; they are never sent.
    frozen
        Arrays that stay as they were at first, and are the same on all nodes.
    still
        Names of normalization layers whose running statistics are frozen: they are computed as in an evaluation.
    left_out
        Trained parameters that ``training.send`` does not name, so that they are frozen.
    constant
        Those of the frozen arrays that are constants: a fit must not change them.
    auxiliary
        Those of the shared arrays that follow from others: the server has them computed anew from each new state.
    """

    shared: tuple[str, ...]
    personal: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the whole state is sent."""
        return not self.personal and not self.frozen

    def train(self, module: nn.Module) -> None:
        """Put a module into training mode, but for the norms whose statistics are frozen."""
        module.train()
        for name in self.still:
            module.get_submodule(name).eval()


def whole(module: nn.Module) -> Parts:
    """Return the parts of a module of which everything is sent."""
    return Parts(tuple(names_of(module)))


def names_of(module: nn.Module) -> dict[str, list[str]]:
    """Return the name by which the state holds each tensor -> all names of that tensor."""
    names: dict[int, list[str]] = {}
    for name, each in module.state_dict(keep_vars=True).items():
        names.setdefault(id(each), []).append(name)
    return {several[0]: several for several in names.values()}


def parts_of(
    module: nn.Module,
    *,
    send: str,
    personal: str,
    model: str,
    constant: Collection[str] = (),
    auxiliary: Collection[str] = (),
) -> Parts:
    """Return the parts of a module.

    Parameters
    ----------
    send, personal
        The settings: JSON lists of patterns, or empty.
    model
        Name of the model in messages.
    constant
        Names of constants. One is sent all the same where ``training.send`` names it itself, or is ``*`` alone.
    auxiliary
        Names of buffers that follow from weights.

    Raises
    ------
    SettingError
        If a pattern matches no name, or nothing that is trained is sent.
    """
    names = names_of(module)
    stored = module.state_dict(keep_vars=True)
    asked = json.loads(send or "[]")
    constants = set[str]() if asked == ["*"] else {*constant}.difference(asked)
    at_rest = _frozen(module) | {id(stored[name]) for name in constants}
    is_frozen = {name: id(stored[name]) in at_rest for name in names}
    words = _words(module, names)
    words[UNFROZEN] = {name for name in names if not is_frozen[name]}
    own = _matched("training.personal", personal, names, words)
    kept = tuple(name for name in names if name in own and not is_frozen[name])
    if own and not kept:
        why = f"what it names is frozen or constant, and the same on all clients: {listed(sorted(own))}"
        raise SettingError("training.personal", _shown(personal), why)
    wanted = _matched("training.send", send, names, words) if send else {each for each in names if not is_frozen[each]}
    wanted -= constants
    shared = tuple(name for name in names if name in wanted and name not in kept)
    trained = [name for name in names if isinstance(stored[name], nn.Parameter) and not is_frozen[name]]
    _check_shared(send, personal, model, shared=shared, trained=trained, is_any_frozen=any(is_frozen.values()))
    frozen = tuple(name for name in names if name not in shared and name not in kept)
    fixed = {id(stored[name]) for name in frozen}
    return Parts(
        shared, kept, frozen,
        tuple(n for n, part in module.named_modules() if isinstance(part, NORMS[0]) and id(part.running_mean) in fixed),
        tuple(name for name in frozen if name in trained),
        tuple(name for name in frozen if name in constants),
        tuple(name for name in shared if name in auxiliary),
    )  # fmt: skip


def named_by(setting: str, given: str, module: nn.Module) -> set[str]:
    """Return the names that a setting's patterns leave, as the state holds them; `given` is a JSON list.

    >>> sorted(named_by("training.decayed", '["!*.bias"]', nn.Sequential(nn.Linear(2, 2))))
    ['0.weight']
    """
    names = names_of(module)
    return _matched(setting, given, names, _words(module, names))


def _words(module: nn.Module, names: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return what ``norm`` and ``last`` match."""
    stored = module.state_dict(keep_vars=True)
    kinds = {NORM: _of_norms(module), LAST: _of_last(module)}
    return {word: {name for name in names if id(stored[name]) in ids} for word, ids in kinds.items()}


def _check_shared(
    send: str, personal: str, model: str, *, shared: Sequence[str], trained: Sequence[str], is_any_frozen: bool
) -> None:
    """Refuse parts of which the nodes would send nothing that they have trained."""
    if send and not shared:
        raise SettingError(
            "training.send", _shown(send), "all that it names is personal (training.personal): nothing is sent"
        )
    if trained and not {*trained}.intersection(shared):
        if personal and not send:
            why = "it names everything that is trained: nothing would be averaged; leave a layer out of it"
            raise SettingError("training.personal", _shown(personal), why)
        why = f"nothing that it names is trained: there are {listed(trained)}"
        raise SettingError("training.send", _shown(send), why)
    if not shared and is_any_frozen:
        why = (
            "all its parameters are frozen (requires_grad=False), which stay on the clients: nothing would be sent; "
            "let some require gradients, or name what a learner of yours changes in training.send ('*': everything)"
        )
        raise SettingError("model.name", model, why)


def _shown(given: str) -> str:
    """Return patterns as people write them."""
    return ", ".join(map(str, json.loads(given or "[]")))


def _matched(setting: str, given: str, names: Mapping[str, Sequence[str]], words: Mapping[str, set[str]]) -> set[str]:
    """Return the names that a list of patterns leaves: each adds names, or with a leading ! takes them away.

    A pattern matches a name, or the name of the layer that holds it; ``norm`` matches the layers of normalization,
    ``last`` the last layer, ``unfrozen`` what is neither frozen nor constant.
    """
    patterns: list[object] = json.loads(given or "[]")
    found: set[str] = set(names) if patterns and str(patterns[0]).startswith("!") else set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise SettingError(setting, given, "write patterns of names, as 'head.*', or a list of them")
        wanted = pattern.removeprefix("!")
        matched = {name for name, several in names.items() if any(_is_match(each, wanted) for each in several)}
        matched |= words.get(wanted, set())
        if not matched:
            tops = list(dict.fromkeys(name.partition(".")[0] for name in names))
            what = "the model has no layer of normalization" if wanted == NORM else "no parameter or buffer is named so"
            raise SettingError(setting, pattern, f"{what}; there are {listed(tops)} (see run.model().state_dict())")
        found = found - matched if pattern.startswith("!") else found | matched
    return found


def _is_match(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a name or the name of its layer.

    >>> _is_match("head.0.weight", "head"), _is_match("header.weight", "head"), _is_match("a.lora_b", "*lora*")
    (True, False, True)
    """
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _frozen(module: nn.Module) -> set[int]:
    """Return the ids of frozen parameters, and of the buffers of frozen layers."""
    return {id(each) for each in module.parameters() if not each.requires_grad} | set(_frozen_buffers(module, False))


def _frozen_buffers(module: nn.Module, within: bool) -> Iterator[int]:
    """Yield the ids of the buffers of frozen layers; a layer without parameters is as frozen as the one around it."""
    own = list(module.parameters())
    is_frozen = not any(each.requires_grad for each in own) if own else within
    if is_frozen:
        yield from (id(each) for each in module.buffers(recurse=False))
    for child in module.children():
        yield from _frozen_buffers(child, is_frozen)


def last_layer(module: nn.Module) -> str:
    """Return the name of the last layer of a module that has parameters of its own, in the order of the module.

    >>> last_layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(1)))
    '2'
    """
    names = [
        name for name, part in module.named_modules() if name and any(True for _ in part.parameters(recurse=False))
    ]
    return names[-1] if names else ""


def _of_last(module: nn.Module) -> set[int]:
    """Return the ids of the parameters and buffers of the last layer; none where the whole module is one layer."""
    layer = module.get_submodule(last_layer(module))
    return {id(each) for each in (*layer.parameters(), *layer.buffers())} if layer is not module else set()


def _of_norms(module: nn.Module) -> set[int]:
    """Return the ids of the parameters and buffers of normalization layers."""
    parts = [each for each in module.modules() if isinstance(each, NORMS) or NAME_OF_A_NORM.search(type(each).__name__)]
    held: list[Tensor] = [
        each for part in parts for each in (*part.parameters(recurse=False), *part.buffers(recurse=False))
    ]
    return {id(each) for each in held}
