"""Forget a client of a run exactly: the rounds since it first took part are trained again without it.

A round depends on the state before it, on what strategy, selector and nodes remember, and on the clients that take
part. Before a client first takes part none of these depends on it, if each draw of the others is independent of it.
So the run that goes on from there without the client is the run in which it was never ready, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fedlearn.commands.run_once import run_once
from fedlearn.commands.verified import verified
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.config.baselines import NONE
from fedlearn.core.errors import RunFailed, UsageError, said
from fedlearn.data.scaling import text_of_moments
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of, fingerprint_of
from fedlearn.plugins import objects
from fedlearn.runs.file_names import CHECKPOINT, EVENTS, FORGOTTEN, MODEL, whole_name
from fedlearn.runs.files import sha256, write_atomically
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.kept_whole import begin_from, kept_rounds
from fedlearn.runs.log import EventTail
from fedlearn.runs.manifest import Manifest, Setting
from fedlearn.runs.safe_reading import read_as
from fedlearn.runs.settings_of_resume import kept_settings

Show = Callable[[Path], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The content of `forgotten.json`.

    Parameters
    ----------
    before, after
        SHA-256 of the models with the client and without it.
    again
        The number of rounds that were trained again.
    rounds
        The number of rounds of the model without the client.
    cpu_seconds
        Of the rounds that were trained again.
    settings
        Of the run without the client, but for its folder.
    data
        The fingerprint of the data set.
    sha256
        That of all else in this file.
    """

    client: int
    before: str
    after: str
    again: int
    rounds: int
    cpu_seconds: float
    settings: dict[str, Setting]
    data: str
    sha256: str = ""

    @property
    def own(self) -> str:
        """The SHA-256 that the content should have."""
        content = {name: value for name, value in asdict(self).items() if name != "sha256"}
        return sha256(json.dumps(content, sort_keys=True).encode())


def forgotten(
    folder: Path, client: int, *, out: Path | None = None, scaling: str = "", show: Show | None = None
) -> tuple[Path, Certificate]:
    """Train a run again without a client, or go on where a kill has stopped that; return the certificate and its path.

    Parameters
    ----------
    out
        Folder of the run without the client.
    scaling
        Statistics without the client, for a run with ``data.scaling``.
    show
        Shows the run with this event log as long as a block lasts.

    Raises
    ------
    UsageError
        If the run cannot forget the client exactly; the line says why.
    """
    config = config_from({**RunFolder(folder).read_settings(), "out": str(folder)}, source=str(folder))
    summary, manifest = RunFolder(folder).read_summary(), Manifest.read(folder / CHECKPOINT)
    _check(folder, config, manifest, client, scaling)
    out = (out or folder.with_name(f"{folder.resolve().name}-without-{client}")).resolve()
    asked = _without(config, client, scaling).model_copy(update={"out": str(out)})
    objects.look_in(folder)
    begin = _begin(folder, config, client)
    cpu_before = Manifest.read(folder / whole_name(begin) / CHECKPOINT).cpu_seconds if begin else 0.0
    if begin and not (out / CHECKPOINT).exists():
        begin_from(folder, begin, out, kept_settings(asked))
        RunFolder(out).write_settings(asked)
    after = run_once(asked, is_new=False, show=show).read_summary()
    found = Certificate(
        client=client, before=summary["model_sha256"], after=after["model_sha256"],
        again=after["rounds"] - begin, rounds=after["rounds"],
        cpu_seconds=round((after["cpu_seconds"] or 0.0) - (cpu_before or 0.0), 3),
        settings=to_flower(asked.model_copy(update={"out": ""})), data=manifest.data,
    )  # fmt: skip
    found = replace(found, sha256=found.own)
    write_atomically(out / FORGOTTEN, json.dumps(asdict(found), indent=1).encode())
    return out / FORGOTTEN, found


def certified(path: Path, *, again: bool = False) -> Certificate:
    """Run what a certificate says, from round 1, and return the certificate.

    Parameters
    ----------
    again
        Whether the run with the client is made, too, and compared with the model that the certificate replaces.

    Raises
    ------
    UsageError
        If the file is no certificate, was edited, or belongs to another run than the one in its folder.
    RunFailed
        If another model comes out.
    """
    try:
        found = read_as(Certificate, path)
    except ValueError as error:
        raise UsageError(f"{path}: {said(error)}: name forgotten.json of fedlearn forget") from None
    if found is None or found.own != found.sha256:
        raise UsageError(f"{path}: it was edited: its SHA-256 is not the one that it holds")
    model = path.with_name(MODEL)
    if model.exists() and sha256(model.read_bytes()) != found.after:
        raise UsageError(f"{path}: it is of another run: {model} has not the SHA-256 {found.after}")
    config = config_from(dict(found.settings), source=str(path))
    if found.client not in config.absent:
        raise UsageError(f"{path}: client {found.client} takes part by its settings: this proves nothing")
    if fingerprint_of(config, dataset_of(config)) != found.data:
        raise UsageError(f"{path}: {said(config.data.dataset)} holds other rows than the run had")
    objects.look_in(path.parent)
    runs = [("without", _with_absent(config, config.absent), found.after)]
    if again:
        runs.append(("with", _with_absent(config, config.absent - {found.client}), found.before))
    for how, each, wanted in runs:
        with TemporaryDirectory(prefix="fedlearn-verify-") as place:
            sha = run_once(each.model_copy(update={"out": f"{place}/run"}), is_new=True).read_summary()["model_sha256"]
        if sha != wanted:
            raise RunFailed(f"{path}: {how} client {found.client}, the model has the SHA-256 {sha}, not {wanted}")
    return found


def _check(folder: Path, config: RunConfig, manifest: Manifest, client: int, scaling: str) -> None:
    """Refuse a run that cannot forget a client exactly."""
    if why := why_not(config, manifest):
        raise UsageError(f"{folder}: {why}")
    if not 0 <= client < config.clients or client in config.absent:
        raise UsageError(f"--client {client}: no such client takes part in {folder}; it has {config.clients}, from 0")
    if bool(config.data.scaling) != bool(scaling):
        why = "the client's rows are in data.scaling: measure it by a run with rounds.without, and name that run"
        raise UsageError(f"--scaling {scaling}: {why if config.data.scaling else 'the run has no data.scaling'}")
    if RunFolder(folder).read_summary()["status"] != "completed":
        raise UsageError(f"{folder}: the run has not completed its rounds: resume it first, by --resume {folder}")
    if any(event.get("event") == "roll-called" for event in EventTail(folder / EVENTS).read()):
        raise UsageError(f"{folder}: it is a run over a network, whose clients have their examples: begin another run")
    if wrong := verified(folder, again=False).wrong:
        raise UsageError(f"{folder}: it is not what it was when it ended: {wrong[0]}")


def why_not(config: RunConfig, manifest: Manifest) -> str:
    """Return why a run with these settings cannot forget a client exactly; empty if it can."""
    spec, rounds = model_spec(config.model.name), config.rounds
    takes_all = rounds.selector == "uniform" and config.goal_count == config.clients - len(config.absent)
    is_private = spec.is_private or config.protects_records or config.protects_nodes or not manifest.data
    if config.is_secure:
        return "secure.sums: a sum less another sum shows what the client has sent: clients refuse that"
    if is_private:
        return "a private run: the others would pay for the same rounds again: begin another, with a budget for both"
    if spec.sums:
        return f"model.name = {config.model.name!r}: two exact sums show the rows of the client: clients refuse that"
    if rounds.selector != "ranked" and not takes_all:
        return (
            f"rounds.selector = {rounds.selector!r}: the draw of the others depends on the client: use 'ranked' in "
            "runs that are to forget, or a cohort of all"
        )
    if rounds.schedule != "synchronous":
        return f"rounds.schedule = {rounds.schedule!r}: the order of reports depends on the client: use 'synchronous'"
    return "training.baseline: a baseline has no common model" if config.training.baseline != NONE else ""


def _without(config: RunConfig, client: int, scaling: str) -> RunConfig:
    """Return the settings without a client, and without a time limit, which would end the run at another round."""
    config = _with_absent(config, {*config.absent, client})
    stop = config.stop.model_copy(update={"time_limit": ""})
    data = config.data.model_copy(update={"scaling": text_of_moments(scaling)} if scaling else {})
    return config.model_copy(update={"stop": stop, "data": data})


def _with_absent(config: RunConfig, absent: Collection[int]) -> RunConfig:
    """Return the settings in which these clients take no part."""
    return config.model_copy(
        update={"rounds": config.rounds.model_copy(update={"without": json.dumps(sorted(absent))})}
    )


def _begin(folder: Path, config: RunConfig, client: int) -> int:
    """Return the last round before the client's first of which a whole checkpoint is kept; 0: none is."""
    measures = config.evaluation.nodes or config.data.scaling  # its rows are in what others do from round 1 on
    first = 1 if measures else _first_round(folder, client, is_timed=bool(config.devices.name))
    return max((kept for kept in kept_rounds(folder) if kept < first), default=0)


def _first_round(folder: Path, client: int, *, is_timed: bool) -> int:
    """Return the first round for which the client was drawn; with devices, in which it said that it was ready.

    The ready query takes time of a device, and moves the clock for all.
    """
    seen: dict[str, set[tuple[int, int]]] = {"ready": set(), "rejected": set()}
    for event in EventTail(folder / EVENTS).read():
        if event.get("partition") == client and event.get("event") in seen:
            seen[str(event["event"])].add((int(event["round"]), int(event["attempt"])))
    rejected: Collection[tuple[int, int]] = () if is_timed else seen["rejected"]
    never = Manifest.read(folder / CHECKPOINT).rounds + 1
    return min((number for number, attempt in seen["ready"] if (number, attempt) not in rejected), default=never)
