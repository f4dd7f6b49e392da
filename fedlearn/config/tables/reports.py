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
            "identity; or a chain of residual | drop, rand-k, top-k | rotate | quantize, eden, sign, fp16 | "
            "entropy, such as drop:0.1,rotate,quantize:4; ternary is top-k,sign; or module:Class."
        ),
    )
    keep_ratio: Annotated[Share, Flag("--keep-ratio", "X", Panel.REPORTS), ReadBy.DROPS_BY_SETTING] = Field(
        default=0.1, description="drop: share of the entries that is sent, unless the chain names one."
    )
    granularity: Annotated[Literal["entry", "tensor", "all"], ReadBy.DROPS] = Field(
        default="entry",
        description=(
            "drop: keep_ratio of the entries of each parameter; or, as in the paper's pseudocode, shuffle whole "
            "tensors, or all entries of all parameters, and drop them until the share is exceeded."
        ),
    )
    send: Annotated[Literal["weights", "update"], Flag("--send", "WHAT", Panel.REPORTS)] = Field(
        default="weights", description="Update of a client: its new weights (as in the paper), or their change."
    )
    downlink: str = Field(
        default="identity",
        description=(
            "Codec of the downlink state: identity, or a chain of rotate, quantize, eden, fp16, "
            "entropy; or anchor:ROUNDS:BITS and any chain but residual for the correction to it, such as "
            "anchor:50:4,eden; or ef21 and such a chain if all clients take part in all rounds, such as "
            "ef21,top-k:0.1."
        ),
    )


class StrategySettings(Settings):
    """Settings of the strategy, which makes the next state of the reports."""

    name: Annotated[str, Flag("--strategy", "NAME", Panel.REPORTS), AlsoCalled({"strategy"})] = Field(
        default="fedavg",
        description=(
            "{names}, or module:Class of any Flower strategy; tree models take forest_union, dp-relay takes "
            "relay, unless another is given."
        ),
    )
    weighting: Literal["examples", "uniform"] = Field(
        default="examples", description="Weight of a client in a mean: its number of examples, or one."
    )
    steps: Steps = Field(
        default="",
        description=("Transforms of each update before the sum, with their options, such as clip = {norm = 1.0}."),
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
            "Keyword parameters of the strategy's constructor: server_lr of fedavgm and fedadam, trim of "
            "trimmed-mean, and others in strategies/README.md."
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
            "Largest allowed L2 norm of a client's change, relative to the median of the last round, and larger "
            "for a client with more examples. 0 sets no limit. From 3 clients on; not for trees."
        ),
    )
    max_share: Share = Field(
        default=0.95,
        description=(
            "Largest share of the cohort's examples that a client may claim, if the others have the median of the "
            "last round. 1 sets no limit. From 5 clients on; not for trees."
        ),
    )
    max_examples: Annotated[int, Field(ge=1)] = Field(
        default=10_000_000,
        description=(
            "Largest number of examples that a client may claim; for models of sums the largest number that its "
            "sums may count: set it to the size of the largest client."
        ),
    )
    max_depth: Annotated[int, Field(ge=1), ReadBy.TREES] = Field(
        default=32, description="Tree models: edges on the longest path of a client's tree."
    )
    max_nodes: Annotated[int, Field(ge=1), ReadBy.TREES] = Field(
        default=1_000_000, description="Tree models: nodes of all trees in one update."
    )
