"""Settings of rounds: their three phases, when the state is evaluated, and when the run ends before its last round."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedlearn.config.fields import Duration, MaybeNumber, Names, NonNegative, Numbers, Options, Seconds, Settings, Share
from fedlearn.config.marks import AlsoCalled, Flag, FreeToChange, Panel, ReadBy
from fedlearn.core.metric import BESIDE


class RoundSettings(Settings):
    """Settings of the three phases of a round: selection, configuration, reporting."""

    total: Annotated[
        int,
        Field(ge=1),
        Flag("--rounds", "N", Panel.ROUNDS),
        AlsoCalled({"rounds", "num_rounds", "comm_round", "communication_rounds", "global_rounds"}),
        FreeToChange(),
    ] = Field(default=20, description="Number of rounds.")
    schedule: Annotated[str, AlsoCalled({"schedule"})] = Field(
        default="synchronous",
        description="Order of the phases of a round: {names}, or module:Class.",
    )
    schedule_options: Options = Field(
        default="", description="Keyword parameters of the schedule's constructor, such as buffer_size of buffered."
    )
    cohort: Annotated[
        int,
        Field(ge=0),
        Flag("--cohort", "N", Panel.ROUNDS),
        AlsoCalled(
            {
                "client_fraction",
                "fraction_fit",
                "fraction_train",
                "join_ratio",
                "min_fit_clients",
                "min_clients",
                "clients_per_round",
                "client_num_per_round",
                "participation",
                "sample_rate",
            }
        ),
    ] = Field(
        default=20,
        description="Clients per round; 0 takes all. At most the number of clients.",
    )
    invited: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=(
            "Clients asked in each selection whether they are ready; 0: 1.3 times the wanted number, 5 times for "
            "a selector that learns."
        ),
    )
    selector: str = Field(
        default="uniform", description="Choice of the cohort among the ready clients: {names}, or module:Class."
    )
    selector_options: Options = Field(
        default="", description="Keyword parameters of the selector's constructor, such as tiers of tiers."
    )
    without: Numbers = Field(
        default="",
        description=(
            "List of clients, from 0, that take no part: they are asked for nothing, and the others keep their "
            "examples. fedlearn forget sets it."
        ),
    )
    features: Names = Field(
        default="",
        description=(
            'Further features of a round, in their order: a list of module:Class, or {"module:Class" = {OPTION = '
            "VALUE}}, derived from Feature."
        ),
    )
    over_selection: Annotated[float, Field(ge=1, le=100)] = Field(
        default=1.0,
        description=(
            "Select this multiple of the clients per round; the round ends when the wanted number of updates has "
            "arrived. Above 1 in simulations only with devices."
        ),
    )
    selection_window: Seconds = Field(default=60.0, description="Seconds for clients to say that they are ready.")
    minimum_ready: Share = Field(
        default=0.8,
        description="Share of the clients per round that must be ready; with fewer, the server tries again.",
    )
    reporting_deadline: Annotated[Seconds, AlsoCalled({"timeout", "round_timeout", "client_timeout"})] = Field(
        default=600.0, description="Seconds after the last instruction at which the server stops waiting for updates."
    )
    quorum: Share = Field(
        default=0.8, description="Share of the cohort that must send a valid update to complete the round."
    )
    max_attempts: Annotated[int, Field(ge=1)] = Field(
        default=5, description="Attempts at one round, before the run fails."
    )
    backoff: NonNegative = Field(
        default=1.0, description="Seconds before the second attempt; doubled before each further one, at most 60."
    )
    store_every: Annotated[int, Field(ge=1), FreeToChange()] = Field(
        default=1,
        description=(
            "Rounds between stored checkpoints; the last round is always stored. After a kill, rounds since the "
            "last checkpoint run again. Runs whose clients have ledgers are stored after every round."
        ),
    )
    keep_every: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Rounds between the models that stay in the run folder, such as models/round-000010.safetensors, with "
            "whole checkpoints, from which fedlearn forget trains again; 0 keeps only the last and the best model."
        ),
    )


class EvaluationSettings(Settings):
    """Settings of evaluation: where and how often the state is evaluated."""

    where: Annotated[Literal["server", "nodes", "none"], FreeToChange()] = Field(
        default="server", description="On the server's test set, on every client of the cohort, or not at all."
    )
    every: Annotated[int, Field(ge=1), FreeToChange()] = Field(
        default=1, description="Rounds between evaluations; the last round is always evaluated."
    )
    nodes: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Number of clients drawn at each evaluation to measure the state on their own examples (nodes.csv; "
            "their spread in metrics.csv); those of the cohort also measure before and after they train. The "
            "number of clients takes all; 0 none."
        ),
    )
    beside: Annotated[Names, Flag("--beside", "WHAT", Panel.LEARNING)] = Field(
        default="",
        description=(
            "Also evaluate on each client, on the same examples: alone (local training only, doubles the cost, "
            "and shows who gains); tuned (the client's model after evaluation.tune_epochs more passes over its "
            "examples); global (the common state). All clients measure, on a fifth of their examples, unless "
            "evaluation.nodes and data.node_test_share are given."
        ),
    )
    tune_epochs: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Passes over a client's examples for tuned (evaluation.beside)."
    )
    scores: Names = Field(
        default="",
        description=(
            "Scores of all outputs at once, on the server and on clients: a list of scikit-learn's scorers and "
            "metrics, such as f1_macro and roc_auc, of module:name of a function (outputs, targets) or a metric "
            'of torchmetrics, or {"module:name" = {OPTION = VALUE}}. The first with a known direction finds the '
            "best round."
        ),
    )
    scores_mb: Annotated[int, Field(ge=1), FreeToChange()] = Field(
        default=500,
        description=(
            "Limit in MB for the outputs of a set that evaluation.scores needs: rows x outputs x 4 bytes, in each "
            "process that measures; computing briefly takes 4 to 12 times as much. More is refused."
        ),
    )

    @field_validator("beside")
    @classmethod
    def _is_known(cls, names: str) -> str:
        if unknown := [each for each in json.loads(names or "[]") if each not in BESIDE]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(BESIDE)}")
        return names

    @property
    def kinds(self) -> tuple[str, ...]:
        """What nodes measure beside the model that they use: names of `fedlearn.core.metric.BESIDE`, in its order."""
        return tuple(kind for kind in BESIDE if self.nodes and kind in json.loads(self.beside or "[]"))


class StopSettings(Settings):
    """Settings of stopping early: a run ends before ``rounds.total`` by one metric of its rounds, or by the clock."""

    metric: Annotated[str, FreeToChange(), ReadBy.STOPS] = Field(
        default="",
        description=(
            "Metric for stopping early, a column of metrics.csv; empty: the headline metric, which also finds the "
            "best round."
        ),
    )
    target: Annotated[
        MaybeNumber, Flag("--target", "X", Panel.ROUNDS), AlsoCalled({"target", "target_accuracy"}), FreeToChange()
    ] = Field(
        default="", description="Stop after the first round in which stop.metric reaches this value; empty: none."
    )
    patience: Annotated[
        int,
        Field(ge=0),
        Flag("--patience", "N", Panel.ROUNDS),
        AlsoCalled({"patience", "early_stop", "early_stopping"}),
        FreeToChange(),
    ] = Field(
        default=0,
        description=("Stop if stop.metric has not improved for this many rounds; 0: off."),
    )
    least_improvement: Annotated[NonNegative, FreeToChange(), ReadBy.STOPS] = Field(
        default=0.0, description="Minimum improvement of stop.metric."
    )
    after: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Pause after this round: a resume with a later one, or 0, continues to the bytes of an uninterrupted "
            "run, as rounds.total does not change. A paused run with validation rows does not measure its test "
            "rows. 0: off."
        ),
    )
    time_limit: Annotated[
        Duration,
        Flag("--time-limit", "TIME", Panel.RUNNING),
        AlsoCalled({"time_limit", "max_time", "walltime"}),
        FreeToChange(),
    ] = Field(
        default="",
        description=(
            "Stop before this time has passed since the command began, such as 50m, 1h30m or 90s, early by a "
            "tenth of it and at most 30 s; a resume has the same time again. Empty: no limit."
        ),
    )
