"""Settings of reports: how a node sends one, what it must satisfy, and how the next state is made of all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import NonNegative, Options, Settings, Share, Steps
from fedlearn.config.marks import AlsoCalled, Flag, Moved, Panel, ReadBy


class CompressionSettings(Settings):
    """Settings of compression: of updates on their way to the server, and of the state on its way to the nodes."""

    codec: Annotated[str, Flag("--compression", "CHAIN", Panel.REPORTS), AlsoCalled({"compression"})] = Field(
        default="identity",
        description=(
            "identity; or a chain of residual | drop, rand-k, top-k | rotate | quantize, eden, sign, fp16 | entropy, "
            "as drop:0.1,rotate,quantize:4; ternary is top-k,sign; or module:Class."
        ),
    )
    keep_ratio: Annotated[Share, Flag("--keep-ratio", "X", Panel.REPORTS), ReadBy.DROPS_BY_SETTING] = Field(
        default=0.1, description="drop: share of the entries that is sent, where the chain names none."
    )
    granularity: Annotated[Literal["entry", "tensor"], ReadBy.DROPS] = Field(
        default="entry", description="drop: single entries, or whole tensors as in the paper's pseudocode."
    )
    send: Annotated[Literal["weights", "update"], Flag("--send", "WHAT", Panel.REPORTS)] = Field(
        default="weights", description="The node's new weights (as the paper), or their change."
    )
    downlink: str = Field(
        default="identity",
        description=(
            "The state on its way to the nodes: identity, or a chain of rotate, quantize, eden, fp16, entropy; or "
            "anchor:ROUNDS:BITS and any chain but residual for the correction to it, as anchor:50:4,eden; or ef21 and "
            "such a chain, where all nodes take part in all rounds, as ef21,top-k:0.1."
        ),
    )


class StrategySettings(Settings):
    """Settings of the strategy, which makes the next state of the reports."""

    name: Annotated[str, Flag("--strategy", "NAME", Panel.REPORTS), AlsoCalled({"strategy"})] = Field(
        default="fedavg",
        description=(
            "{names}, or module:Class of any Flower strategy; tree models take forest_union, dp-relay takes relay, "
            "unless another is given."
        ),
    )
    weighting: Literal["examples", "uniform"] = Field(
        default="examples", description="Weight of a node in a mean: its number of examples, or one."
    )
    steps: Steps = Field(
        default="",
        description=(
            "What each update goes through before it is added up: fold steps with their options, as clip = {norm = "
            "1.0}."
        ),
    )
    options: Annotated[
        Options,
        Moved(
            {
                "decoder": "strategy.options.decoder",
                "server_lr": "strategy.options.server_lr",
                "server_momentum": "strategy.options.momentum for fedavgm, strategy.options.beta1 for fedadam",
                "beta2": "strategy.options.beta2",
                "tau": "strategy.options.tau",
                "trim": "strategy.options.trim",
            }
        ),
    ] = Field(
        default="",
        description=(
            "The strategy's own, keyword parameters of its constructor: server_lr of fedavgm and fedadam, trim of "
            "trimmed-mean, and those that strategies/README.md lists."
        ),
    )


class GateSettings(Settings):
    """Settings of the gate: limits that a report must keep to be used."""

    max_norm: NonNegative = Field(
        default=0.0, description="Largest allowed L2 norm of the sent values; 0 sets no limit."
    )
    max_ratio: NonNegative = Field(
        default=5.0,
        description=(
            "Largest allowed L2 norm of a node's change, in usual ones: the median of the last round, more for a node"
            " with more examples. 0 sets no limit. From 3 nodes on; not for trees."
        ),
    )
    max_share: Share = Field(
        default=0.95,
        description=(
            "Largest share of the cohort's examples that a node may claim, if the others have the median of the last "
            "round. 1 sets no limit. From 5 nodes on; not for trees."
        ),
    )
    max_examples: Annotated[int, Field(ge=1)] = Field(
        default=10_000_000,
        description=(
            "Largest number of examples that a node may claim; of models made of sums, for how many its sums may "
            "count. There set it to what the largest node may hold."
        ),
    )
    max_depth: Annotated[int, Field(ge=1), ReadBy.TREES] = Field(
        default=32, description="Tree models: edges on the longest path of a reported tree."
    )
    max_nodes: Annotated[int, Field(ge=1), ReadBy.TREES] = Field(
        default=1_000_000, description="Tree models: nodes of all trees in one report."
    )
