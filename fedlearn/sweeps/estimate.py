"""Foretell the bytes of a run, and the seconds of its nodes' devices, by a short trial of the same settings.

The trial is a run of its own with the same data, model, codec and nodes, of a few nodes in each of two rounds. The
bytes of its messages are measured, not modelled: a codec from outside is foretold like a built-in one. A round of the
run costs as many such messages as it has nodes. Only the number of nodes that lack an anchor is expected, not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedlearn.compression import load_anchor
from fedlearn.config import RunConfig
from fedlearn.config.baselines import NONE
from fedlearn.config.tables.round_settings import StopSettings
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.report.number_rows import read_rows
from fedlearn.runs.file_names import MODEL, TABLE
from fedlearn.runs.folder import RunFolder

TRIED = 8  # nodes in a round of the trial: as many as the most demanding robust strategy asks for with one liar
BITS = 8  # in a byte

Run = Callable[[RunConfig], RunFolder]


@dataclass(frozen=True, slots=True)
class Devices:
    """Seconds of one training on the devices of a profile, over all nodes.

    Parameters
    ----------
    download, training, upload
        Medians over the nodes; `training` is from the end of the download to the report.
    whole, slowest
        The median and the largest of all three together.
    lost
        Mean probability that a training is lost.
    """

    name: str
    download: float
    training: float
    upload: float
    whole: float
    slowest: float
    lost: float


@dataclass(frozen=True, slots=True)
class Foretold:
    """Bytes of a run in which each node that is asked reports, and seconds on its devices.

    Parameters
    ----------
    dataset
        As it was found.
    nodes
        Nodes of a round.
    parameters
        Entries of the state.
    message_down, message_up
        Bytes that a node is sent, and sends, in a round after the first; with the expected share of an anchor.
    bytes_down, bytes_up
        Of the whole run, evaluations on nodes included; queries, answers and notices are not.
    bits_down, bits_up
        Of such a message, for each parameter.
    devices
        None of a run without devices.
    """

    model: str
    dataset: str
    rounds: int
    nodes: int
    parameters: int
    message_down: float
    message_up: float
    bytes_down: float
    bytes_up: float
    bits_down: float
    bits_up: float
    devices: Devices | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the numbers by their names, and the bytes both ways."""
        return {**asdict(self), "bytes_total": self.bytes_down + self.bytes_up}


def foretell(config: RunConfig, run: Run) -> Foretold:
    """Return what a run of these settings will send.

    Parameters
    ----------
    run
        Makes a run and returns its folder.

    Raises
    ------
    UsageError
        If the settings are wrong; if nothing is sent, as in a baseline; or if the state grows from round to round.
    """
    if config.training.baseline != NONE:
        raise SettingError("training.baseline", config.training.baseline, "a baseline of a federation sends nothing")
    with TemporaryDirectory(prefix="fedlearn-plan-") as place:
        folder = run(_tried(config, Path(place) / "trial"))
        summary = folder.read_summary()
        anchor = _anchor_size(config, folder)
        rows = _rows_of(folder, anchor)
    if not summary.get("parameters"):
        raise UsageError(
            f"model.name = {config.model.name!r}: its state grows from round to round with what clients find in their "
            "data, so that its bytes are not known before: run one round"
        )
    return _of_rows(config, rows, summary, anchor)


def _tried(config: RunConfig, out: Path) -> RunConfig:
    """Return the settings of the trial: few nodes and rounds; no evaluation but on nodes, which is sent for."""
    cohort = config.goal_count if _needs_all(config) else min(config.goal_count, TRIED)
    is_plain = config.rounds.schedule == "synchronous" and not _measures_on_nodes(config)
    rounds = {"total": min(2 if is_plain else 3, config.rounds.total), "cohort": cohort}
    evaluation = {"every": rounds["total"]} | ({} if _measures_on_nodes(config) else {"where": "none"})
    return config.model_copy(
        update={
            "out": str(out),
            "rounds": config.rounds.model_copy(update={**rounds, "over_selection": 1.0}),
            "evaluation": config.evaluation.model_copy(update=evaluation),
            "stop": StopSettings(),
            "data": config.data.model_copy(update={"validation_share": "0.0"}),
            "devices": type(config.devices)() if config.rounds.schedule == "synchronous" else config.devices,
        }
    )


def _needs_all(config: RunConfig) -> bool:
    """Return whether a message's size, or the noise, depends on the number of nodes in a round."""
    how = load_anchor(config.compression)
    follows = how is not None and how.moves
    return config.is_secure or config.protects_nodes or follows or config.rounds.schedule != "synchronous"


def _measures_on_nodes(config: RunConfig) -> bool:
    return config.evaluation.where == "nodes" or bool(config.evaluation.nodes)


def _anchor_size(config: RunConfig, folder: RunFolder) -> int:
    """Return the bytes that an anchor adds to a message; 0 where there are no anchors."""
    from fedlearn.core.state_files import unpack_state
    from fedlearn.wire.decoded_state import anchor_size

    how = load_anchor(config.compression)
    return 0 if how is None else anchor_size(how, unpack_state((folder.path / MODEL).read_bytes()))


def _rows_of(folder: RunFolder, anchor: int) -> list[dict[str, float]]:
    """Return the rounds of a trial, without the bytes of the anchors that were sent in them."""
    problems: list[str] = []
    rows = [{name: value or 0.0 for name, value in row.items()} for row in read_rows(folder.path / TABLE, problems)]
    return [row | {"bytes_down": row["bytes_down"] - anchor * row.get("anchors_sent", 0.0)} for row in rows]


def _of_rows(config: RunConfig, rows: list[dict[str, float]], summary: dict[str, Any], anchor: int) -> Foretold:
    """Return the numbers of a run by the rounds of its trial: the first, one that is like all others, one evaluated."""
    first, usual = rows[0], rows[min(1, len(rows) - 1)]
    down, up = (_each(usual, name) for name in ("bytes_down", "bytes_up"))
    down_first, up_first = (_each(first, name) for name in ("bytes_down", "bytes_up"))
    total, measured = config.rounds.total, 0.0
    nodes, reports = config.largest_cohort, config.goal_count
    shares = [nodes / config.clients] * total
    if _measures_on_nodes(config) and len(rows) > 2:
        beside = max(rows[-1]["bytes_down"] - down * rows[-1]["cohort"], 0.0)
        scale = nodes / rows[-1]["cohort"] if config.evaluation.where == "nodes" else 1.0
        measured = beside * scale * sum(config.is_evaluated(number) for number in range(1, total + 1))
    bytes_down = nodes * (down_first + down * (total - 1)) + measured
    bytes_up = reports * (up_first + up * (total - 1))
    if config.rounds.schedule != "synchronous":  # a round is a commit, and the first one fills all nodes with work
        bytes_down, bytes_up = (first[name] + usual[name] * (total - 1) for name in ("bytes_down", "bytes_up"))
        nodes, down = round(usual["uploads"]), usual["bytes_down"] / max(usual["uploads"], 1.0)
        shares = [min(row["cohort"] / config.clients, 1.0) for row in (first, *[usual] * (total - 1))]
    anchors = _anchors_sent(config, shares)
    bytes_down += anchor * anchors
    down += anchor * anchors / max(nodes * total, 1)
    parameters = int(summary["parameters"])
    return Foretold(
        model=config.model.name,
        dataset=str(summary["dataset"]),
        rounds=total,
        nodes=nodes,
        parameters=parameters,
        message_down=down,
        message_up=up,
        bytes_down=bytes_down,
        bytes_up=bytes_up,
        bits_down=BITS * down / parameters,
        bits_up=BITS * up / parameters,
        devices=_on_devices(config, down, up),
    )


def _anchors_sent(config: RunConfig, shares: Sequence[float]) -> float:
    """Return how many anchors all nodes are expected to be sent, by the share of the nodes in each round."""
    how = load_anchor(config.compression)
    return 0.0 if how is None else config.clients * how.sent_to_a_node(shares)


def _each(row: dict[str, float], name: str) -> float:
    """Return the bytes of one message of a round, over all of its attempts."""
    messages = row["uploads"] if name == "bytes_up" else row["cohort"] * row["attempts"]
    return row[name] / messages if messages else 0.0


def _on_devices(config: RunConfig, down: float, up: float) -> Devices | None:
    if not config.devices.name:
        return None

    from fedlearn.engine.virtual_time.setup import fleet_of

    fleet, examples = fleet_of(config)
    downloads, uploads = down / fleet.down, up / fleet.up
    trainings = fleet.startup + examples * fleet.seconds_per_example
    whole = downloads + trainings + uploads
    return Devices(
        config.devices.name,
        download=float(np.median(downloads)),
        training=float(np.median(trainings)),
        upload=float(np.median(uploads)),
        whole=float(np.median(whole)),
        slowest=float(whole.max()),
        lost=float(fleet.dropout.mean()),
    )
