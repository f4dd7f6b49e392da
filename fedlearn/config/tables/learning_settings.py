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
            "cnn, cnn-large, resnet18 on images; linear, mlp on all but texts; lstm, transformer on texts and "
            "series; dp-forest, dp-relay, dp-classifier, dp-random-forest, pf-forest, dp-boosting, dp-naive-bayes, "
            "exact-boosting on tables; or module:name of a torch.nn.Module, its class, or a function that returns one."
        ),
    )
    loss: str = Field(
        default="",
        description=(
            "Loss of a torch module: {names}, or module:name of a function (outputs, targets) or an Objective. "
            "Empty: by the kind of data."
        ),
    )
    initial: Annotated[str, Flag("--from", "RUN", Panel.LEARNING, is_last=True), AlsoCalled({"warm_start"})] = Field(
        default="",
        description=(
            "State before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors "
            "or .pt file of a state_dict. Data, strategy and codec may differ. Empty: the module's initial "
            "weights."
        ),
    )
    initial_sha256: str = Field(default="", description="Set by the program: SHA-256 of the file of model.initial.")
    options: Options = Field(
        default="",
        description=(
            "Keyword parameters of the model: for trees, of the estimator in fedlearn.private_trees; for "
            "module:callable, of the callable."
        ),
    )


class TrainingSettings(Settings):
    """Settings of the training on a node."""

    learner: str = Field(
        default="",
        description="Local training of a client: {names}, or module:Class. Empty: the model's own.",
    )
    baseline: Annotated[
        Literal["none", "central", "local"],
        Flag("--baseline", "WHICH", Panel.LEARNING),
        AlsoCalled({"centralized", "local_only", "clients_only"}),
        ReadBy.TORCH,
    ] = Field(
        default="none",
        description=(
            "Baseline to compare the federation with, in a simulation. central: one client with all examples. "
            "local: each client trains alone; scores are means over the clients' models. Both use each example as "
            "often as the federation on average, in the same number of rounds. none: the federation."
        ),
    )
    local_epochs: Annotated[
        int, Field(ge=1), Flag("--local-epochs", "N", Panel.LEARNING), AlsoCalled({"epochs"}), ReadBy.TORCH
    ] = Field(default=5, description="Passes over the client's examples in one round.")
    passes: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0,
        description=(
            "Set by the program for a baseline: passes over a client's examples in one round, a share of "
            "local_epochs, rounded down to whole steps but at least one; 0: local_epochs."
        ),
    )
    batch_size: Annotated[
        int, Field(ge=1), Flag("--batch-size", "N", Panel.LEARNING), AlsoCalled({"batch"}), ReadBy.TORCH
    ] = Field(default=100, description="Examples in one SGD step.")
    micro_batch: Annotated[
        int,
        Field(ge=0),
        AlsoCalled({"accumulate", "gradient_accumulation_steps", "per_device_train_batch_size"}),
        ReadBy.TORCH,
    ] = Field(
        default=0,
        description=(
            "Examples of a step whose gradients are computed at a time, to save memory; the gradients of a step are "
            "added up, so that it is that of batch_size examples up to rounding. Norms over a batch see the smaller "
            "ones. 0: all of a step."
        ),
    )
    stack: Annotated[int, Field(ge=0, le=1024), ReadBy.TORCH] = Field(
        default=0,
        description=(
            "Number of clients that a worker trains in one computation; a number above 1 changes the last bits of "
            "the result. fedlearn warns and trains one by one what it cannot stack. In simulations with synchronous "
            "rounds. 0: on the CPU ten small clients of cnn or linear, with the bytes of 1, else 1; on a GPU the "
            "whole cohort, but at most 50."
        ),
    )
    partial: Annotated[bool, ReadBy.TORCH] = Field(
        default=False,
        description=(
            "Let a client that would be late for the deadline stop training in time and send its result; in "
            "virtual time."
        ),
    )
    lr: Annotated[
        Positive, Flag("--lr", "X", Panel.LEARNING, is_last=True), AlsoCalled({"learning_rate"}), ReadBy.TORCH
    ] = Field(default=0.05, description="Learning rate of the first round.")
    lr_schedule: Annotated[str, ReadBy.TORCH] = Field(
        default="inverse",
        description=(
            "Learning rate of round r: inverse, lr / (1 + lr_decay * (r - 1)); constant; cosine, near 0 in the "
            "last of rounds.total; or module:function of (training, round_number, rounds)."
        ),
    )
    lr_decay: Annotated[NonNegative, ReadIf("training.lr_schedule", ("inverse",), or_foreign=True), ReadBy.TORCH] = (
        Field(default=0.1, description="inverse: speed of the decay; 0 keeps the learning rate constant.")
    )
    optimizer: Annotated[str, ReadBy.TORCH] = Field(
        default="sgd",
        description=(
            "Local optimizer, which starts anew in each round: {names}, or module:Class of a torch.optim.Optimizer."
        ),
    )
    momentum: Annotated[float, Field(ge=0, lt=1), ReadIf("training.optimizer", ("sgd",)), ReadBy.TORCH] = Field(
        default=0.9, description="sgd: momentum; starts from zero in each round."
    )
    weight_decay: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0, description="L2 penalty, added to the gradient by sgd; other optimizers apply it in their own way."
    )
    decayed: Annotated[Names, AlsoCalled({"no_decay", "decay_parameters"}), ReadBy.TORCH] = Field(
        default="",
        description=(
            "Parameters to which weight_decay applies, by patterns as in training.send: !norm and !*.bias leave out "
            "norms and biases. Empty: all that are trained."
        ),
    )
    clip_norm: Annotated[NonNegative, ReadBy.TORCH] = Field(
        default=0.0,
        description=(
            "Largest L2 norm of the gradient of a step's loss; longer gradients are scaled down. 0 sets no limit."
        ),
    )
    proximal_mu: Annotated[NonNegative, AlsoCalled({"mu", "fedprox"}), ReadBy.TORCH] = Field(
        default=0.0, description="FedProx: strength of the pull towards the global state; 0 is plain FedAvg."
    )
    send: Annotated[Names, AlsoCalled({"send_only", "trainable", "adapters"}), ReadBy.TORCH] = Field(
        default="",
        description=(
            "Parameters and buffers of a torch module that clients send: patterns of names, such as head.*, or a "
            "list of them; !NAME excludes, norm names the layers of normalization, last the last layer, unfrozen what "
            "an empty value sends, * all. "
            "The others are frozen, the same on all clients, unless they are personal. Empty: all except frozen "
            "parameters (requires_grad=False) and constants, which are buffers that no forward pass changes; "
            "constants are sent only by their full names, or by *."
        ),
    )
    personal: Annotated[Names, AlsoCalled({"fedper", "fedbn", "local_layers"}), ReadBy.TORCH] = Field(
        default="",
        description=(
            "Parameters and buffers that each client trains and never sends, by patterns as in training.send: "
            "norm is FedBN, last FedPer. Clients are measured with their own layers (evaluation.nodes); the "
            "server measures with the layers from before round 1."
        ),
    )
    precision: Annotated[Precision, ReadBy.TORCH] = Field(
        default="float32",
        description=(
            "Precision of a torch module in training and evaluation. bfloat16-mixed: torch's autocast, for "
            "products and convolutions; bfloat16: everything except the parameters of norms. Weights, losses, "
            "steps, sums and updates stay float32. Fast on GPUs and on processors with instructions for it."
        ),
    )
    options: Options = Field(
        default="",
        description=(
            "Keyword parameters of the learner's constructor; for sgd, of the optimizer, such as betas of adamw."
        ),
    )


class ClientSettings(Settings):
    """Settings of the client around the training."""

    mods: Names = Field(
        default="",
        description=(
            "Flower's client mods around training, the first outermost: a list of module:name, such as "
            'flwr.clientapp.mod:fixedclipping_mod, or {"module:Class" = {OPTION = VALUE}}.'
        ),
    )
