"""All settings of a run: fifteen tables, and three settings beside them.

A setting is declared in one place, a field of one of `config/tables/`: its type, default, unit, range and meaning, its
flag, its other names and who reads it. The command line, TOML files and Flower's run config all fill this schema
(`load.py`); an unknown key or a value out of range is an error that names the setting. Names of plugins
are not repeated: `names.described` puts the names in the table in place of "{names}", or behind the text.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import Settings
from fedlearn.config.marks import AlsoCalled, Flag, FreeToChange, Panel
from fedlearn.config.tables.attack import AttackSettings
from fedlearn.config.tables.contribution_settings import ContributionSettings
from fedlearn.config.tables.data import DataSettings
from fedlearn.config.tables.learning_settings import ClientSettings, ModelSettings, TrainingSettings
from fedlearn.config.tables.privacy import PrivacySettings
from fedlearn.config.tables.reports import CompressionSettings, GateSettings, StrategySettings
from fedlearn.config.tables.round_settings import EvaluationSettings, RoundSettings, StopSettings
from fedlearn.config.tables.running_settings import DeviceSettings, EngineSettings
from fedlearn.config.tables.secure import SecureSettings
from fedlearn.core.cohort import needed_of

DP_SGD = "dp-sgd"  # the learner that protects records


class RunConfig(Settings):
    """All settings of a run."""

    clients: Annotated[
        int, Field(ge=1, le=10_000_000), Flag("--clients", "N", Panel.ROUNDS), AlsoCalled({"num_clients", "nodes"})
    ] = Field(default=100, description="Number of clients, each with its own partition of the training set.")
    seed: Annotated[int, Field(ge=0, lt=2**63), Flag("--seed", "N", Panel.ROUNDS, is_last=True)] = Field(
        default=1, description="Random seed: the same seed gives the same model on the same kind of machine."
    )
    out: Annotated[str, Flag("--out", "FOLDER", Panel.RUNNING, is_last=True), FreeToChange()] = Field(
        default="", description="Run folder; a new one under runs/ unless given."
    )
    rounds: RoundSettings = RoundSettings()
    stop: StopSettings = StopSettings()
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    client: ClientSettings = ClientSettings()
    privacy: PrivacySettings = PrivacySettings()
    compression: CompressionSettings = CompressionSettings()
    secure: SecureSettings = SecureSettings()
    strategy: StrategySettings = StrategySettings()
    gate: GateSettings = GateSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    contributions: ContributionSettings = ContributionSettings()
    attack: AttackSettings = AttackSettings()
    devices: DeviceSettings = DeviceSettings()
    engine: EngineSettings = EngineSettings()

    def is_evaluated(self, round_number: int) -> bool:
        """Return whether the state after a round is to be evaluated, wherever that is."""
        return round_number == self.rounds.total or round_number % self.evaluation.every == 0

    @property
    def is_secure(self) -> bool:
        """Whether the server gets the sum of the reports alone, masked or for a study without masks."""
        return self.secure.sums != "off"

    @property
    def sums_groups(self) -> bool:
        """Whether the server gets a sum for each group of the cohort."""
        return self.is_secure and self.secure.group_size > 0

    @property
    def samples_poisson(self) -> bool:
        """Whether each node is drawn by a coin of its own, by which privacy accounts amplify."""
        return self.rounds.selector == "poisson"

    @property
    def protects_records(self) -> bool:
        """Whether nodes train by DP-SGD, and pay for it from their ledgers."""
        return self.privacy.protects == "records" and self.training.learner == DP_SGD

    @property
    def protects_nodes(self) -> bool:
        """Whether nodes clip their change, and noise is added to it, or to the sum of a round."""
        return self.privacy.protects == "nodes"

    @property
    def nodes_add_noise(self) -> bool:
        """Whether nodes are protected by noise that they add themselves, and pay for from their ledgers."""
        return self.protects_nodes and self.privacy.trust != "central"

    @property
    def server_adds_noise(self) -> bool:
        """Whether nodes are protected by noise that the server adds to their sum."""
        return self.protects_nodes and not self.nodes_add_noise

    @property
    def separates_nodes(self) -> bool:
        """Whether each node enforces a separation of its participations, and the noise of rounds is correlated."""
        return self.protects_nodes and self.privacy.separation > 1

    @property
    def adapts_clip(self) -> bool:
        """Whether the clipping norm of a run that protects nodes changes from round to round."""
        return self.protects_nodes and self.privacy.clip_quantile > 0

    @property
    def sends(self) -> Literal["weights", "update"]:
        """The values that a node sends; a secure sum is always of changes."""
        return "update" if self.is_secure else self.compression.send

    @property
    def goal_count(self) -> int:
        """Nodes wanted in each round's cohort."""
        return min(self.rounds.cohort or self.clients, self.clients - len(self.absent))

    @property
    def largest_cohort(self) -> int:
        """Nodes of the largest cohort that the uniform selector draws."""
        return min(round(self.rounds.over_selection * self.goal_count), self.clients)

    @property
    def absent(self) -> frozenset[int]:
        """Clients that take no part (``rounds.without``)."""
        return frozenset(json.loads(self.rounds.without or "[]"))

    @property
    def fewest_ready(self) -> int:
        """Nodes that must be ready for a cohort to be drawn."""
        return needed_of(self.rounds.minimum_ready, self.goal_count)

    @property
    def fewest_reports(self) -> int:
        """Reports of the smallest round that is committed: the quorum of the smallest cohort.

        Noise of which each node adds a share is calibrated to this number.

        >>> RunConfig(clients=10, rounds={"minimum_ready": 0.8, "quorum": 0.5}).fewest_reports
        4
        """
        return needed_of(self.rounds.quorum, self.fewest_ready)
