"""Show that a change of shape changes no refusal: the first one for each pair of a reduced list of settings.

    python -m tests.refusals --out before.json          # on the commit before
    python -m tests.refusals --against before.json      # on the commit after: exit code 1 if any differs

A run is planned and opened, and ends before its first round: some 2,000 pairs of `SETTINGS`, and each of them on top of
each of `BASES`, as a simulation; each alone as a server of a network sees it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import combinations
from logging import CRITICAL, disable
from multiprocessing import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from flwr.serverapp import Grid

from fedlearn import flower
from fedlearn.aggregation.offers import Offers
from fedlearn.config import to_flower
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.engine.prepare import prepared
from fedlearn.engine.virtual_time.setup import with_devices
from fedlearn.models.presets import settings_from

Settings = dict[str, Any]
COMMON: Settings = {
    "data.dataset": "digits", "model.name": "linear", "clients": 12, "rounds.cohort": 8, "rounds.total": 3,
    "training.batch_size": 16,
}  # fmt: skip
SETTINGS: tuple[tuple[str, Any], ...] = (
    ("rounds.cohort", 3), ("rounds.schedule", "buffered"), ("rounds.selector", "poisson"), ("rounds.selector", "oort"),
    ("rounds.over_selection", 1.5), ("rounds.store_every", 2), ("rounds.invited", 1), ("devices.name", "phones"),
    ("stop.patience", 2), ("data.validation_share", "0.5"), ("model.name", "mlp"), ("model.name", "dp-forest"),
    ("model.name", "dp-boosting"), ("model.name", "statistics"), ("training.learner", "dp-sgd"),
    ("training.learner", "scaffold"), ("training.baseline", "local"), ("training.baseline", "central"),
    ("training.partial", True), ("training.stack", 3), ("training.personal", "last"), ("training.clip_norm", 1.0),
    ("client.mods", "flwr.clientapp.mod:message_size_mod"), ("privacy.protects", "nodes"),
    ("privacy.protects", "records"), ("privacy.delta", 1e-4), ("privacy.trust", "local"),
    ("privacy.trust", "distributed"), ("privacy.trust", "central"), ("privacy.noise", "secure"),
    ("privacy.noise", "seeded"), ("privacy.public_sizes", True), ("privacy.participations", 2),
    ("privacy.separation", 2), ("privacy.clip_quantile", 0.5), ("privacy.population", 1000),
    ("compression.codec", "drop"), ("compression.codec", "top-k:0.1"), ("compression.codec", "eden"),
    ("compression.send", "update"), ("compression.send", "weights"), ("compression.downlink", "rotate,quantize:8"),
    ("compression.downlink", "top-k:0.1"), ("compression.downlink", "anchor:50,eden"),
    ("compression.downlink", "ef21,top-k:0.1"), ("secure.sums", "masked"), ("secure.sums", "unmasked"),
    ("secure.group_size", 4), ("secure.coverage", 0.9), ("strategy.name", "median"), ("strategy.name", "fedavgm"),
    ("strategy.name", "krum"), ("strategy.name", "fltrust"), ("strategy.name", "scaffold"), ("strategy.name", "relay"),
    ("strategy.name", "flwr.serverapp.strategy:FedAvg"), ("strategy.weighting", "uniform"),
    ("strategy.steps", '{"clip": {"norm": 1.0}}'), ("gate.max_norm", 1.0), ("evaluation.where", "nodes"),
    ("evaluation.where", "none"), ("evaluation.nodes", 3), ("evaluation.beside", "alone"), ("attack.name", "sign-flip"),
    ("attack.name", "alie"), ("attack.name", "backdoor"), ("attack.attackers", 0.01),
)  # fmt: skip
NODES: Settings = {"privacy.protects": "nodes", "privacy.delta": 1e-3, "privacy.epsilon": 50.0}
BASES: dict[str, Settings] = {
    "nodes": NODES,
    "nodes, local": NODES | {"privacy.trust": "local"},
    "nodes, distributed": NODES
    | {"privacy.trust": "distributed", "secure.sums": "unmasked", "privacy.noise": "seeded"},
    "records": {"privacy.protects": "records", "privacy.delta": 1e-4, "privacy.epsilon": 8.0},
    "sums": {"secure.sums": "unmasked"},
    "groups": {"secure.sums": "unmasked", "secure.group_size": 4, "compression.codec": "drop"},
    "trees": {"model.name": "dp-forest", "data.dataset": "diabetes"},
    "attack": {"attack.name": "alie", "attack.attackers": 0.25},
}


class Enough(BaseException):
    """The run has been opened: nothing was refused."""


class PlainGrid(Grid):
    """A grid that offers nothing, as that of a network."""

    run = flower.empty_run()
    offers = Offers()

    def set_run(self, run: Any) -> None:
        """Do nothing."""

    def create_message(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: nothing is sent."""
        raise AssertionError

    def get_node_ids(self) -> list[int]:
        """Return no node."""
        return []

    push_messages = pull_messages = send_and_receive = create_message


def asked() -> Iterator[tuple[str, Settings, bool]]:
    """Yield the name of each question, its settings, and whether it is a simulation."""
    for one in SETTINGS:
        yield _said(one), dict([one]), True
        yield f"network: {_said(one)}", dict([one]), False
        for name, base in BASES.items():
            yield f"{name}: {_said(one)}", base | dict([one]), True
    for one, other in combinations(SETTINGS, 2):
        if one[0] != other[0]:
            yield f"{_said(one)}, {_said(other)}", dict([one, other]), True


def _said(setting: tuple[str, Any]) -> str:
    return f"{setting[0]}={setting[1]}"


def refusal_of(question: tuple[str, Settings, bool]) -> tuple[str, str]:
    """Return the name of a question, and the first refusal; empty where the run would begin."""
    name, flat, is_virtual = question
    with (
        TemporaryDirectory() as folder,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        try:
            _open({**COMMON, **flat, "out": f"{folder}/run"}, is_virtual)
        except Enough:
            return name, ""
        except (Exception, SystemExit) as error:
            return name, f"{type(error).__name__}: {error}".replace(folder, "FOLDER")
    raise AssertionError(name)


def _open(flat: Settings, is_virtual: bool) -> None:
    from server.app import opened

    config = settings_from(flat)
    if is_virtual:
        config = prepared(config)
    settings = to_flower(config)
    grid: Grid = PlainGrid()
    if is_virtual:
        inline = InlineGrid(load_client_app(), config.clients, settings, stack=config.training.stack)
        grid = with_devices(inline, config)
    with opened(grid, flower.server_context(settings)):
        raise Enough


def _begin() -> None:
    disable(CRITICAL)
    warnings.simplefilter("ignore")
    flower.enter_run()


def main(
    against: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Refusals to compare with.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where to write the refusals.")] = None,
) -> None:
    """Write the first refusal of each question; exit code 1 if any is not as it was."""
    with Pool(2, _begin) as pool:
        found = dict(pool.imap(refusal_of, asked(), chunksize=16))
    if out:
        out.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    before = json.loads(against.read_text(encoding="utf-8")) if against else found
    changed = [name for name in found if found[name] != before.get(name)]
    for name in changed:
        print(f"{name}\n  was {before.get(name)!r}\n  is  {found[name]!r}")
    refused = sum(map(bool, found.values()))
    print(f"{len(found)} questions, {refused} refused, {len(set(found.values()))} texts, {len(changed)} changed")
    raise typer.Exit(1 if changed else 0)


if __name__ == "__main__":
    typer.run(main)
