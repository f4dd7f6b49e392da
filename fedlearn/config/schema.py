"""Every setting of a run: its type, default, unit, range and meaning.

This is the one place where settings are declared. The command line, TOML files and Flower's run config all fill
this schema (`load.py`, `flower.py`); an unknown key or a value out of range is an error that names the setting. Names
of plugins are not repeated here: `load.described` puts those of the table in place of "{names}", or behind the text.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from fedlearn.plugging.options import Names, Options, Steps

Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Precision = Literal["float32", "bfloat16-mixed", "bfloat16"]

DEVICE_SETTING = "engine.device"
DEVICE = re.compile(r"cpu|mps|auto|cuda(:\d{1,3})?")


def kind_of_device(device: str) -> str:
    """Return the kind of a device: what it computes depends on that, and not on which one of a kind it is.

    >>> kind_of_device("cuda:1")
    'cuda'
    """
    return device.partition(":")[0]


class Settings(BaseModel):
    """A closed, frozen table of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_switch(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false where a number is wanted: pydantic would take them for 1 and 0."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("it is no switch: true and false mean nothing here")
        return value

    @field_validator("*")
    @classmethod
    def _can_be_stored(cls, value: object) -> object:
        """Refuse text that no file could hold."""
        if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
            raise ValueError("it should be text without NUL, and in UTF-8")
        return value


class RoundSettings(Settings):
    """The three phases of a round: selection, configuration, reporting."""

    total: Annotated[int, Field(ge=1)] = Field(default=20, description="How many rounds to commit.")
    schedule: str = Field(
        default="synchronous",
        description="In which order the phases go, and what a round is: {names}, or module:Class.",
    )
    schedule_options: Options = Field(
        default="", description="The schedule's own, keyword parameters of its constructor, as buffer_size of buffered."
    )
    cohort: Annotated[int, Field(ge=0)] = Field(
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
    reporting_deadline: Seconds = Field(
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
    store_every: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description=(
            "Committed rounds after which the run is stored, and after the last: what a kill costs is run again. Runs"
            " whose nodes pay for what they publish are stored after every round."
        ),
    )


class DataSettings(Settings):
    """Which examples there are and how they are spread over the nodes."""

    dataset: str = Field(
        default="auto",
        description=(
            "Images: cifar10, digits; texts: topics; tables for tree models: california, diabetes, adult, or a .toml "
            "file that describes one; synthetic: made when they are asked for, for any number of nodes. Your own: a "
            "folder of pictures with one folder for each class; a .csv or .parquet file (say "
            "data.options.target=COLUMN), .npz, or .json in LEAF's form; hub:NAME of the Hugging Face Hub; "
            "module:callable. auto: CIFAR-10 or, where it can be neither found nor downloaded, digits; for tree "
            "models california, else diabetes (auto-regression), and adult for classifiers."
        ),
    )
    options: Options = Field(
        default="",
        description=(
            "The data set's own, keyword parameters of what reads it: target, inputs, groups of a table, size of "
            "pictures; kind (images, rows, tokens), examples, size, classes, alpha, noise and seed of synthetic."
        ),
    )
    dir: str = Field(
        default="",
        description=(
            "Folder with cifar10/train.parquet and test.parquet, or cifar-10-batches-py; california_housing.parquet, "
            "adult.parquet; else the variable FEDLEARN_DATA."
        ),
    )
    partition: str = Field(
        default="iid",
        description=(
            "iid (equal random shares), dirichlet (skewed labels), pathological (few classes a node), shard (label "
            "shards), natural (each node one group of the data set, as a writer), linear, square, exponential (uneven"
            " sizes), {names}; a .csv or .json file that says the node of each example; or module:name of a function "
            "or of a partitioner of flwr-datasets."
        ),
    )
    partition_options: Options = Field(
        default="",
        description=(
            "The partition's own, keyword parameters of its partitioner or function, as group_size of "
            "grouped-natural-id."
        ),
    )
    alpha: Positive = Field(default=0.5, description="dirichlet: concentration; small is skewed.")
    classes_per_node: Annotated[int, Field(ge=1)] = Field(
        default=2, description="pathological: classes that each node has."
    )
    shards_per_node: Annotated[int, Field(ge=1)] = Field(
        default=2, description="shard: label-sorted shards that each node gets."
    )
    node_test_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description=(
            "Share of its examples that each node does not train on, and measures the state on where nodes evaluate; "
            "at least one of two. 0: it measures on all that it trains on; of natural partitions, on the group's own "
            "test examples. With a private model it must be 0: nothing is measured there."
        ),
    )
    augment: bool = Field(
        default=False, description="Random horizontal flip and 4-pixel padded crop of training images."
    )
    notice: str = Field(
        default="", description="Set by the program: why another data set is used than the one asked for."
    )


class ModelSettings(Settings):
    """What is learned."""

    name: str = Field(
        default="cnn",
        description=(
            "cnn, cnn-large, resnet18 on images; linear, mlp on all but texts; lstm, transformer on texts and series;"
            " dp-forest, dp-relay, dp-classifier, dp-random-forest, pf-forest, dp-boosting, dp-naive-bayes on tables;"
            " or module:name of a torch.nn.Module, its class, or a function that returns one."
        ),
    )
    loss: str = Field(
        default="",
        description=(
            "What a torch module makes smaller: {names}, or module:name of a function (outputs, targets) or an "
            "Objective; empty takes what goes with the data."
        ),
    )
    options: Options = Field(
        default="",
        description=(
            "The model's own: of trees, parameters of the estimator in fedlearn.private_trees; of a module:callable, "
            "its keyword parameters."
        ),
    )


class TrainingSettings(Settings):
    """How a node learns."""

    learner: str = Field(
        default="",
        description="What improves the state on a node: {names}, or module:Class; empty takes the model's own.",
    )

    local_epochs: Annotated[int, Field(ge=1)] = Field(
        default=5, description="Passes over the node's examples in one round."
    )
    batch_size: Annotated[int, Field(ge=1)] = Field(default=100, description="Examples in one SGD step.")
    stack: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description=(
            "Nodes that a worker trains in one computation; above 1 the bytes are those of this number. What cannot "
            "be trained so is trained one by one, and a line says why. In simulations with synchronous rounds. 0: on "
            "the CPU 1, on a GPU the whole cohort, but no more than 50."
        ),
    )
    partial: bool = Field(
        default=False,
        description=(
            "Whether a node whose device would be late with all its steps takes as many as fit, and reports what came"
            " of them, instead of not being heard at all; on virtual time."
        ),
    )
    lr: Positive = Field(default=0.05, description="Learning rate of the first round.")
    lr_schedule: str = Field(
        default="inverse",
        description=(
            "The learning rate of round r: inverse, lr / (1 + lr_decay * (r - 1)); constant; cosine, near 0 in the "
            "last of rounds.total; or module:function of (training, round_number, rounds)."
        ),
    )
    lr_decay: NonNegative = Field(
        default=0.1, description="inverse: how fast the learning rate falls; 0 keeps it constant."
    )
    optimizer: str = Field(
        default="sgd",
        description=(
            "What takes a step, and begins anew in each round: {names}, or module:Class of a torch.optim.Optimizer."
        ),
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="sgd: momentum; starts from zero in each round."
    )
    weight_decay: NonNegative = Field(
        default=0.0, description="L2 penalty, added to the gradient by sgd; for another optimizer what it makes of it."
    )
    clip_norm: NonNegative = Field(
        default=0.0,
        description=(
            "Largest L2 norm of the gradient of a step's loss, longer ones are shortened to it; 0 sets no limit."
        ),
    )
    proximal_mu: NonNegative = Field(
        default=0.0, description="FedProx: strength of the pull towards the global state; 0 is plain FedAvg."
    )
    precision: Precision = Field(
        default="float32",
        description=(
            "In which a torch module is computed, when it trains and is evaluated. bfloat16-mixed: torch's autocast, "
            "for products and convolutions; bfloat16: all of it but the parameters of norms. Weights, losses, steps, "
            "sums and what is sent stay float32. Fast on GPUs and on processors with instructions for it."
        ),
    )
    options: Options = Field(
        default="",
        description=(
            "The learner's own, keyword parameters of its constructor; of sgd, those of the optimizer, as betas of "
            "adamw."
        ),
    )


class ClientSettings(Settings):
    """What goes around training on a node."""

    mods: Names = Field(
        default="",
        description=(
            "Flower's client mods around training, the first outermost: a list of module:name, as "
            'flwr.clientapp.mod:fixedclipping_mod, or {"module:Class" = {OPTION = VALUE}}.'
        ),
    )


class PrivacySettings(Settings):
    """What a record may lose, for models that are differentially private."""

    epsilon: Positive = Field(
        default=1.0,
        description=(
            "Budget of each node for the whole run: pure epsilon, per record, add or remove one. A tree spends all of"
            " it."
        ),
    )
    noise: Literal["auto", "seeded", "secure"] = Field(
        default="auto",
        description=(
            "secure: protects, never twice the same. seeded: same seed, same bytes, protects nobody. auto: seeded in "
            "a simulation, secure elsewhere."
        ),
    )
    trust: Literal["local", "distributed"] = Field(
        default="local",
        description=(
            "Of models made of sums, whose noise protects. local: each node's own. distributed: that of all nodes "
            "together, each adds a share; private only where nobody sees what one node sends, so in a simulation "
            "only."
        ),
    )
    public_sizes: bool = Field(
        default=False,
        description=(
            "Everybody knows how many examples a node holds: trees are weighed by it, and no budget goes to "
            "estimating it. Results then say 2 epsilon, for a record that is replaced."
        ),
    )


class CompressionSettings(Settings):
    """What a node does to its update before sending it, and the server to the state."""

    codec: str = Field(
        default="identity",
        description=(
            "identity; or a chain of residual | drop, rand-k, top-k | rotate | quantize, eden, sign, fp16 | entropy, "
            "as drop:0.1,rotate,quantize:4; ternary is top-k,sign; or module:Class."
        ),
    )
    keep_ratio: Share = Field(
        default=0.1, description="drop: share of the entries that is sent, where the chain names none."
    )
    granularity: Literal["entry", "tensor"] = Field(
        default="entry", description="drop: single entries, or whole tensors as in the paper's pseudocode."
    )
    send: Literal["weights", "update"] = Field(
        default="weights", description="The node's new weights (as the paper), or their change."
    )
    downlink: str = Field(
        default="identity",
        description="The state on its way to the nodes: identity, or a chain of rotate, quantize, eden, fp16, entropy.",
    )


class StrategySettings(Settings):
    """How reports become the next state."""

    name: str = Field(
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
    options: Options = Field(
        default="",
        description=(
            "The strategy's own, keyword parameters of its constructor: server_lr of fedavgm and fedadam, trim of "
            "trimmed-mean, and those that strategies/README.md lists."
        ),
    )


class GateSettings(Settings):
    """What a report must satisfy before it may touch the model."""

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
    max_depth: Annotated[int, Field(ge=1)] = Field(
        default=32, description="Tree models: edges on the longest path of a reported tree."
    )
    max_nodes: Annotated[int, Field(ge=1)] = Field(
        default=1_000_000, description="Tree models: nodes of all trees in one report."
    )


class EvaluationSettings(Settings):
    """Where and how often the global model is evaluated."""

    where: Literal["server", "nodes", "none"] = Field(
        default="server", description="On the server's test set, on every node of the cohort, or not at all."
    )
    every: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Rounds between evaluations; the last round is always evaluated."
    )
    nodes: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=(
            "Nodes drawn at each evaluation to measure the state on examples of their own (nodes.csv; their spread in"
            " metrics.csv); those of the cohort then measure before and after they train. As many as there are: all. "
            "0: none."
        ),
    )


class DeviceSettings(Settings):
    """Devices of virtual nodes, and with them virtual time: deadlines, windows and pauses are then of its seconds."""

    name: str = Field(
        default="",
        description=(
            "{names}; a .csv, .parquet or .toml file of devices; or module:function that returns a "
            "fedlearn.devices.Fleet. Empty: nodes take no time, and a simulation goes by the wall clock."
        ),
    )
    options: Options = Field(
        default="", description="The devices' own, keyword parameters of what makes them, as dropout of phones."
    )
    sha256: str = Field(default="", description="Set by the program: that of the file of devices.")


class EngineSettings(Settings):
    """How the run is executed; never changes its result, but for the kind of device."""

    name: str = Field(
        default="embedded",
        description=(
            "embedded: worker processes and shared memory; inline: one process, for a debugger; ray: Flower's "
            "Simulation Runtime, here or on a cluster."
        ),
    )
    workers: Annotated[int, Field(ge=0, le=4096)] = Field(
        default=0,
        description=(
            "embedded: worker processes, one thread each; 0 starts one for each core. ray: clients that run at the "
            "same time; 0 as many as fit."
        ),
    )
    address: str = Field(
        default="",
        description=(
            "ray: HOST:PORT of a running cluster; without it, one is started on this machine and stopped after the run."
        ),
    )
    client_cpus: Annotated[float, Field(ge=0.01, allow_inf_nan=False)] = Field(
        default=1.0, description="ray: cores reserved for each client that runs, or a share of one."
    )
    client_gpus: NonNegative = Field(
        default=0.0,
        description=(
            "ray: GPUs reserved for each client that runs, or a share of one; with device = cuda they are trained on."
        ),
    )
    device: str = Field(
        default="cpu",
        description=(
            "Where torch modules are computed: cpu, cuda, cuda:1, mps; auto takes the first of cuda, mps and cpu that"
            " there is. Each kind has bytes of its own. Nodes on a network compute where their owners say."
        ),
    )

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not DEVICE.fullmatch(value):
            raise ValueError("write cpu, cuda, cuda:1 and so on, mps or auto")
        return value


class RunConfig(Settings):
    """All settings of a run."""

    clients: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=100, description="Number of nodes, each with its own partition of the training set."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default=1, description="Same seed, same bytes.")
    out: str = Field(default="", description="Run folder; a new one under runs/ unless given.")
    rounds: RoundSettings = RoundSettings()
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    client: ClientSettings = ClientSettings()
    privacy: PrivacySettings = PrivacySettings()
    compression: CompressionSettings = CompressionSettings()
    strategy: StrategySettings = StrategySettings()
    gate: GateSettings = GateSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    devices: DeviceSettings = DeviceSettings()
    engine: EngineSettings = EngineSettings()

    def is_evaluated(self, round_number: int) -> bool:
        """Return whether the state after a round is to be evaluated, wherever that is."""
        return round_number == self.rounds.total or round_number % self.evaluation.every == 0

    @property
    def goal_count(self) -> int:
        """Nodes wanted in each round's cohort."""
        return min(self.rounds.cohort or self.clients, self.clients)
