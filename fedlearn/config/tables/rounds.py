"""Settings of rounds: their three phases, when the state is evaluated, and when the run ends before its last round."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedlearn.config.fields import Duration, MaybeNumber, Names, NonNegative, Options, Seconds, Settings, Share
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
    ] = Field(default=20, description="How many rounds to commit.")
    schedule: Annotated[str, AlsoCalled({"schedule"})] = Field(
        default="synchronous",
        description="In which order the phases go, and what a round is: {names}, or module:Class.",
    )
    schedule_options: Options = Field(
        default="", description="The schedule's own, keyword parameters of its constructor, as buffer_size of buffered."
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
        description="Goal count: nodes wanted in each round; 0 takes every node. Never more than there are nodes.",
    )
    invited: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=(
            "Nodes asked in each selection whether they are ready; 0 asks 1.3 times as many as are wanted, for a "
            "selector that learns 5 times."
        ),
    )
    selector: str = Field(
        default="uniform", description="Which of the nodes that are ready take part: {names}, or module:Class."
    )
    selector_options: Options = Field(
        default="", description="The selector's own, keyword parameters of its constructor, as tiers of tiers."
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
            "Times the goal count of nodes that are sent the state; the round is over when the goal count has "
            "reported. Above 1 in simulations only with devices."
        ),
    )
    selection_window: Seconds = Field(default=60.0, description="Seconds that nodes have to say that they are ready.")
    minimum_ready: Share = Field(
        default=0.8,
        description="Share of the goal count that must be ready; with fewer, the server gives up and tries again.",
    )
    reporting_deadline: Annotated[Seconds, AlsoCalled({"timeout", "round_timeout", "client_timeout"})] = Field(
        default=600.0, description="Seconds after the last instruction at which the server stops waiting for reports."
    )
    quorum: Share = Field(
        default=0.8, description="Share of the cohort that must report for the round to be committed."
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
            "Committed rounds after which the run is stored, and after the last: what a kill costs is run again. Runs"
            " whose nodes pay for what they publish are stored after every round."
        ),
    )
    keep_every: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Rounds between the models that stay in the run folder, as models/round-000010.safetensors; 0 keeps the "
            "last and the best model alone."
        ),
    )


class EvaluationSettings(Settings):
    """Settings of evaluation: where and how often the state is evaluated."""

    where: Annotated[Literal["server", "nodes", "none"], FreeToChange()] = Field(
        default="server", description="On the server's test set, on every node of the cohort, or not at all."
    )
    every: Annotated[int, Field(ge=1), FreeToChange()] = Field(
        default=1, description="Rounds between evaluations; the last round is always evaluated."
    )
    nodes: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Nodes drawn at each evaluation to measure the state on examples of their own (nodes.csv; their spread in"
            " metrics.csv); those of the cohort then measure before and after they train. As many as there are: all. "
            "0: none."
        ),
    )
    beside: Annotated[Names, Flag("--beside", "WHAT", Panel.LEARNING)] = Field(
        default="",
        description=(
            "What the nodes of evaluation.nodes measure beside the model that they use, on the same examples: alone, a "
            "model of each node's own that takes the same steps and learns nothing from others, which costs training "
            "once more and says who gains; tuned, their model after evaluation.tune_epochs more passes over their "
            "examples; global, the state that all have. All nodes measure, on a fifth of their examples, unless "
            "evaluation.nodes and data.node_test_share are given."
        ),
    )
    tune_epochs: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Passes over a node's examples for what is measured as tuned (evaluation.beside)."
    )
    scores: Names = Field(
        default="",
        description=(
            "What is measured on all outputs at once, on the server and on nodes: a list of scikit-learn's scorers and "
            "metrics, as f1_macro and roc_auc, of module:name of a function (outputs, targets) or a metric of "
            'torchmetrics, or {"module:name" = {OPTION = VALUE}}. The first that says which values are better finds '
            "the best round."
        ),
    )
    scores_mb: Annotated[int, Field(ge=1), FreeToChange()] = Field(
        default=500,
        description=(
            "Most MB that the outputs of a set may take where evaluation.scores need them all: rows x outputs x 4 "
            "bytes, in each process that measures; computing takes 4 to 12 times as much for a moment. More is refused."
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
            "The metric by which the run stops early, a column of metrics.csv; empty takes the headline metric, by "
            "which the best round is found."
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
        default=0.0, description="By how much stop.metric must get better for it to count as an improvement."
    )
    after: Annotated[int, Field(ge=0), FreeToChange()] = Field(
        default=0,
        description=(
            "Pause after this round: a resume with a later one, or 0, goes on to the bytes of a run that was never "
            "paused, as rounds.total stays what it is. The test rows of a paused run with validation rows are not "
            "measured. 0: off."
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
            "Stop before so much time has gone since the command began, as 50m, 1h30m or 90s, a tenth of it and at "
            "most 30 s early; a resume goes on, with as much time again. Empty: no limit."
        ),
    )
