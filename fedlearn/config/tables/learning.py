"""Settings of learning: the model, and its training on a node."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedlearn.config.fields import Names, NonNegative, Options, Positive, Settings
from fedlearn.config.marks import AlsoCalled, Flag, Panel, ReadBy, ReadIf

Precision = Literal["float32", "bfloat16-mixed", "bfloat16"]


class ModelSettings(Settings):
    """Settings of the model and its loss."""

    name: Annotated[str, Flag("--model", "NAME", Panel.LEARNING), AlsoCalled({"model"})] = Field(
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
    initial: Annotated[str, Flag("--from", "RUN", Panel.LEARNING, is_last=True), AlsoCalled({"warm_start"})] = Field(
        default="",
        description=(
            "The state before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors or "
            ".pt file of a state_dict. Data, strategy and codec may be others. Empty: the module's own."
        ),
    )
    initial_sha256: str = Field(default="", description="Set by the program: that of the file of model.initial.")
    options: Options = Field(
        default="",
        description=(
            "The model's own: of trees, parameters of the estimator in fedlearn.private_trees; of a module:callable, "
            "its keyword parameters."
        ),
    )


class TrainingSettings(Settings):
    """Settings of the training on a node."""

    learner: str = Field(
        default="",
        description="What improves the state on a node: {names}, or module:Class; empty takes the model's own.",
    )
    baseline: Annotated[
        Literal["none", "central", "local"],
        Flag("--baseline", "WHICH", Panel.LEARNING),
        AlsoCalled({"centralized", "local_only", "clients_only"}),
        ReadBy.TORCH,
    ] = Field(
        default="none",
        description=(
            "What the federation of these settings is compared with, in a simulation. central: one node with all "
            "examples. local: each node alone, scores are means over the nodes' models. Each example is looked at as "
            "often as in the federation on average, in as many rounds. none: the federation."
        ),
    )
    local_epochs: Annotated[
        int, Field(ge=1), Flag("--local-epochs", "N", Panel.LEARNING), AlsoCalled({"epochs"}), ReadBy.TORCH
    ] = Field(default=5, description="Passes over the node's examples in one round.")
    passes: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0,
        description=(
            "Set by the program for a baseline: passes over a node's examples in one round, a share of local_epochs, "
            "down to whole steps but no less than one; 0: local_epochs."
        ),
    )
    batch_size: Annotated[
        int, Field(ge=1), Flag("--batch-size", "N", Panel.LEARNING), AlsoCalled({"batch"}), ReadBy.TORCH
    ] = Field(default=100, description="Examples in one SGD step.")
    stack: Annotated[int, Field(ge=0, le=1024), ReadBy.TORCH] = Field(
        default=0,
        description=(
            "Nodes that a worker trains in one computation; above 1 the bytes are those of this number. What cannot "
            "be trained so is trained one by one, and a line says why. In simulations with synchronous rounds. 0: on "
            "the CPU 1, on a GPU the whole cohort, but no more than 50."
        ),
    )
    partial: Annotated[bool, ReadBy.TORCH] = Field(
        default=False,
        description=(
            "Whether a node whose device would be late with all its steps takes as many as fit, and reports what came"
            " of them, instead of not being heard at all; on virtual time."
        ),
    )
    lr: Annotated[
        Positive, Flag("--lr", "X", Panel.LEARNING, is_last=True), AlsoCalled({"learning_rate"}), ReadBy.TORCH
    ] = Field(default=0.05, description="Learning rate of the first round.")
    lr_schedule: Annotated[str, ReadBy.TORCH] = Field(
        default="inverse",
        description=(
            "The learning rate of round r: inverse, lr / (1 + lr_decay * (r - 1)); constant; cosine, near 0 in the "
            "last of rounds.total; or module:function of (training, round_number, rounds)."
        ),
    )
    lr_decay: Annotated[NonNegative, ReadIf("training.lr_schedule", ("inverse",), or_foreign=True), ReadBy.TORCH] = (
        Field(default=0.1, description="inverse: how fast the learning rate falls; 0 keeps it constant.")
    )
    optimizer: Annotated[str, ReadBy.TORCH] = Field(
        default="sgd",
        description=(
            "What takes a step, and begins anew in each round: {names}, or module:Class of a torch.optim.Optimizer."
        ),
    )
    momentum: Annotated[float, Field(ge=0, lt=1), ReadIf("training.optimizer", ("sgd",)), ReadBy.TORCH] = Field(
        default=0.9, description="sgd: momentum; starts from zero in each round."
    )
    weight_decay: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0, description="L2 penalty, added to the gradient by sgd; for another optimizer what it makes of it."
    )
    clip_norm: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0,
        description=(
            "Largest L2 norm of the gradient of a step's loss, longer ones are shortened to it; 0 sets no limit."
        ),
    )
    proximal_mu: Annotated[NonNegative, AlsoCalled({"mu", "fedprox"}), ReadBy.TORCH] = Field(
        default=0.0, description="FedProx: strength of the pull towards the global state; 0 is plain FedAvg."
    )
    send: Annotated[Names, AlsoCalled({"send_only", "trainable", "adapters"}), ReadBy.TORCH] = Field(
        default="",
        description=(
            "Which parameters and buffers of a torch module nodes send: patterns of names, as head.* or a list of "
            "them; !NAME takes away, norm names the layers of normalization, last the last layer, * all. The others "
            "are frozen, the same on all nodes, unless they are personal. Empty sends all but what the module itself "
            "has frozen (requires_grad=False), and but constants: buffers that no forward pass changes, which are sent "
            "only where they are named in full, or by * alone."
        ),
    )
    personal: Annotated[Names, AlsoCalled({"fedper", "fedbn", "local_layers"}), ReadBy.TORCH] = Field(
        default="",
        description=(
            "Which parameters and buffers each node trains and keeps for itself, by patterns as in training.send: norm"
            " is FedBN, last FedPer. Nodes are measured with their own (evaluation.nodes), the "
            "server measures with the first ones."
        ),
    )
    precision: Annotated[Precision, ReadBy.TORCH] = Field(
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
    """Settings of the client around the training."""

    mods: Names = Field(
        default="",
        description=(
            "Flower's client mods around training, the first outermost: a list of module:name, as "
            'flwr.clientapp.mod:fixedclipping_mod, or {"module:Class" = {OPTION = VALUE}}.'
        ),
    )
