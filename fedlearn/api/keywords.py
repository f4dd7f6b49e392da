"""Keywords of `fedlearn.run` with their types, written by ``python -m tests.keywords``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class Keywords(TypedDict, total=False):
    """The flags of ``fedlearn simulate``, and settings for which objects are given; None counts as not given."""

    rounds: int | None
    """How many rounds to commit."""
    cohort: int | None
    """Goal count: nodes wanted in each round; 0 takes every node. Never more than there are nodes."""
    target: str | float | None
    """Stop after the first round in which stop.metric reaches this value; empty: none."""
    patience: int | None
    """Stop if stop.metric has not improved for this many rounds; 0: off."""
    seed: int | None
    """Random seed: the same seed gives the same model on the same kind of machine."""
    dataset: Any
    """Images: cifar10, digits; texts: topics; tables for tree models: california, diabetes, adult, or a .toml file that
    describes one; synthetic: made when they are asked for, for any number of nodes. Your own: a folder of pictures with
    one folder for each class; a .csv, .tsv or .parquet file (say data.options.target=COLUMN), .npz, or .json in LEAF's
    form; hub:NAME of the Hugging Face Hub; module:callable. auto: CIFAR-10 or, where it can be neither found nor
    downloaded, digits; for tree models california, else diabetes (auto-regression), and adult for classifiers."""
    data_dir: str | Path | None
    """Folder with cifar10/train.parquet and test.parquet, or cifar-10-batches-py; california_housing.parquet,
    adult.parquet; else the variable FEDLEARN_DATA."""
    partition: Any
    """iid (equal random shares), dirichlet (skewed labels), pathological (few classes a node), shard (label shards),
    natural (each node one group of the data set, as a writer), linear, square, exponential (uneven sizes), equal-
    dirichlet, size, distribution, continuous, inner-dirichlet, grouped-natural-id, id-to-size; a .csv or .json file
    that says the node of each example; or module:name of a function or of a partitioner of flwr-datasets."""
    validation_share: str | float | None
    """Share of the server's test rows that are validation rows: they choose the best round, an early stop and a sweep's
    best settings, and the other test rows are measured once, after the last round. Training keeps its bytes. Empty:
    half of them in a sweep, and with stop.target or stop.patience; else 0, none."""
    baseline: Literal["none", "central", "local"] | None
    """What the federation of these settings is compared with, in a simulation. central: one node with all examples.
    local: each node alone, scores are means over the nodes' models. Each example is looked at as often as in the
    federation on average, in as many rounds. none: the federation."""
    local_epochs: int | None
    """Passes over the node's examples in one round."""
    batch_size: int | None
    """Examples in one SGD step."""
    private: Literal["", "nodes", "records"] | None
    """What the training of a torch module protects. nodes: each node with all its records, by changes that the node
    clips, and noise (privacy.trust says whose). records: each record of a node, by gradients of single examples that
    are clipped, and noise on their sum (DP-SGD; training.learner = dp-sgd). Empty: nothing; private models protect
    records by themselves."""
    epsilon: float | None
    """Budget of each node for the whole run, per record, add or remove one, or of the run per node (privacy.protects =
    nodes); pure epsilon unless delta is said. A tree spends all of it."""
    delta: float | None
    """Probability at which epsilon may not hold: far below 1 / records, or 1 / nodes, as 1e-6."""
    beside: str | Sequence[Any] | None
    """What the nodes of evaluation.nodes measure beside the model that they use, on the same examples: alone, a model
    of each node's own that takes the same steps and learns nothing from others, which costs training once more and says
    who gains; tuned, their model after evaluation.tune_epochs more passes over their examples; global, the state that
    all have. All nodes measure, on a fifth of their examples, unless evaluation.nodes and data.node_test_share are
    given."""
    from_: Any
    """The state before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors or .pt
    file of a state_dict. Data, strategy and codec may be others. Empty: the module's own."""
    lr: float | None
    """Learning rate of the first round."""
    compression: Any
    """identity; or a chain of residual | drop, rand-k, top-k | rotate | quantize, eden, sign, fp16 | entropy, as
    drop:0.1,rotate,quantize:4; ternary is top-k,sign; or module:Class."""
    keep_ratio: float | None
    """drop: share of the entries that is sent, where the chain names none."""
    send: Literal["weights", "update"] | None
    """The node's new weights (as the paper), or their change."""
    secure_sums: Literal["off", "masked", "unmasked"] | None
    """masked: the server learns the sum of the changes that the nodes of a round send, and nothing of any one.
    unmasked: the same fixed-point sum, same bytes, without masks: protects nobody, for simulations. off: the server
    sees each report."""
    strategy: Any
    """fedavg, fedavgm, fedadam, fedyogi, fedadagrad, fedexp, fedprox, scaffold, fednova, feddyn, moon, qfedavg, fedsam,
    fedrs, fedlc, fedbn, fedper, lgfedavg, fedrep, fedbabu, ditto, perfedavg, fedala, local, central, median, trimmed-
    mean, krum, multi-krum, geometric-median, centered-clipping, bulyan, fltrust, sums, or module:Class of any Flower
    strategy; tree models take forest_union, dp-relay takes relay, unless another is given."""
    attack: Any
    """How the attackers of a simulation lie, for a study: sign-flip, scaled, gaussian, zero, stale, examples, label-
    flip, backdoor, alie, ipm, min-max, min-sum, mimic, or module:Class. Empty: all are honest."""
    attackers: float | None
    """Share of the nodes that lie, rounded down; which ones, the seed says."""
    time_limit: str | float | None
    """Stop before so much time has gone since the command began, as 50m, 1h30m or 90s, a tenth of it and at most 30 s
    early; a resume goes on, with as much time again. Empty: no limit."""
    devices: Any
    """phones, half-normal, alike; a .csv, .parquet or .toml file of devices; or module:function that returns a
    fedlearn.devices.Fleet. Empty: nodes take no time, and a simulation goes by the wall clock."""
    engine: Any
    """embedded: worker processes and shared memory; inline: one process, for a debugger; ray: Flower's Simulation
    Runtime, here or on a cluster."""
    workers: int | None
    """embedded: worker processes, one thread each; 0 starts one for each core. ray: clients that run at the same time;
    0 as many as fit."""
    out: str | Path | None
    """Run folder; a new one under runs/ unless given."""
    learner: Any
    """What improves the state on a node: sgd, lightning, dp-sgd, scaffold, fednova, feddyn, moon, qfedavg, fedsam,
    fedrs, fedlc, fedrep, fedbabu, ditto, perfedavg, fedala, tree, sums, exact-sums, or module:Class; empty takes the
    model's own."""
    loss: Any
    """What a torch module makes smaller: cross-entropy, next-token, mse, mae, huber, or module:name of a function
    (outputs, targets) or an Objective; empty takes what goes with the data."""
    optimizer: Any
    """What takes a step, and begins anew in each round: sgd, adam, adamw, adagrad, rmsprop, or module:Class of a
    torch.optim.Optimizer."""
    lr_schedule: Any
    """The learning rate of round r: inverse, lr / (1 + lr_decay * (r - 1)); constant; cosine, near 0 in the last of
    rounds.total; or module:function of (training, round_number, rounds)."""
    scores: Any
    """What is measured on all outputs at once, on the server and on nodes: a list of scikit-learn's scorers and
    metrics, as f1_macro and roc_auc, of module:name of a function (outputs, targets) or a metric of torchmetrics, or
    {'module:name' = {OPTION = VALUE}}. The first that says which values are better finds the best round."""
    initial: Any
    """The state before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors or .pt
    file of a state_dict. Data, strategy and codec may be others. Empty: the module's own."""
