"""Keywords of `fedlearn.run` with their types, written by ``python -m tests.keywords``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class Keywords(TypedDict, total=False):
    """The flags of ``fedlearn simulate``, and settings for which objects are given; None counts as not given."""

    rounds: int | None
    """Number of rounds."""
    cohort: int | None
    """Clients per round; 0 takes all. At most the number of clients."""
    target: str | float | None
    """Stop after the first round in which stop.metric reaches this value; empty: none."""
    patience: int | None
    """Stop if stop.metric has not improved for this many rounds; 0: off."""
    seed: int | None
    """Random seed: the same seed gives the same model on the same kind of machine."""
    dataset: Any
    """Images: cifar10, digits; texts: topics; tables for tree models: california, diabetes, adult, or a .toml file that
    declares one; synthetic: made on demand, for any number of clients. Your own: a folder of pictures with one folder
    for each class; a .csv, .tsv or .parquet file (set data.options.target=COLUMN), .npz, or .json in LEAF's form;
    hub:NAME of the Hugging Face Hub; module:callable. auto: CIFAR-10, or digits if it can be neither found nor
    downloaded; for tree models california, else diabetes (auto-regression), and adult for classifiers."""
    data_dir: str | Path | None
    """Folder with cifar10/train.parquet and test.parquet, or cifar-10-batches-py; california_housing.parquet,
    adult.parquet; else the variable FEDLEARN_DATA."""
    partition: Any
    """iid (equal random shares), dirichlet (skewed labels), pathological (few classes on a client), shard (label
    shards), natural (each client has one group of the data set, such as a writer), linear, square, exponential (uneven
    sizes), equal-dirichlet, size, distribution, continuous, inner-dirichlet, grouped-natural-id, id-to-size; a .csv or
    .json file with the client of each example; or module:name of a function or of a partitioner of flwr-datasets."""
    validation_share: str | float | None
    """Share of the server's test rows that are validation rows: they choose the best round, an early stop and a sweep's
    best settings; the other test rows are measured once, after the last round. Training does not change. Empty: half of
    them in a sweep, and with stop.target or stop.patience; else 0, none."""
    baseline: Literal["none", "central", "local"] | None
    """Baseline to compare the federation with, in a simulation. central: one client with all examples. local: each
    client trains alone; scores are means over the clients' models. Both use each example as often as the federation on
    average, in the same number of rounds. none: the federation."""
    local_epochs: int | None
    """Passes over the client's examples in one round."""
    batch_size: int | None
    """Examples in one SGD step."""
    private: Literal["", "nodes", "records"] | None
    """Differential privacy of a torch module. nodes: client-level, each client with all its records; clients clip their
    changes, and noise is added (privacy.trust says by whom). records: example-level, each record of a client, by
    clipped gradients of single examples and noise on their sum (DP-SGD; training.learner = dp-sgd). Empty: none;
    private models protect records by themselves."""
    epsilon: float | None
    """Privacy budget of each client for the whole run, per record, add or remove one; with privacy.protects = nodes per
    client. Pure epsilon unless delta is set. A tree spends all of it."""
    delta: float | None
    """Probability at which epsilon may not hold; choose it well below 1 / records, or 1 / clients, such as 1e-6."""
    beside: str | Sequence[Any] | None
    """Also evaluate on each client, on the same examples: alone (local training only, doubles the cost, and shows who
    gains); tuned (the client's model after evaluation.tune_epochs more passes over its examples); global (the common
    state). All clients measure, on a fifth of their examples, unless evaluation.nodes and data.node_test_share are
    given."""
    from_: Any
    """State before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors or .pt file of
    a state_dict. Data, strategy and codec may differ. Empty: the module's initial weights."""
    lr: float | None
    """Learning rate of the first round."""
    compression: Any
    """identity; or a chain of residual | drop, rand-k, top-k | rotate | quantize, eden, sign, fp16 | entropy, such as
    drop:0.1,rotate,quantize:4; ternary is top-k,sign; or module:Class."""
    keep_ratio: float | None
    """drop: share of the entries that is sent, unless the chain names one."""
    send: Literal["weights", "update"] | None
    """Update of a client: its new weights (as in the paper), or their change."""
    secure_sums: Literal["off", "masked", "unmasked"] | None
    """Secure aggregation. masked: the server learns only the sum of the changes of a round's clients, and nothing about
    one of them. unmasked: the same fixed-point sum, same bytes, without masks: protects nobody, for simulations. off:
    the server sees each update."""
    strategy: Any
    """fedavg, fedavgm, fedadam, fedyogi, fedadagrad, fedexp, fedprox, scaffold, fednova, feddyn, moon, qfedavg, fedsam,
    fedrs, fedlc, fedbn, fedper, lgfedavg, fedrep, fedbabu, ditto, perfedavg, fedala, heterofl, fedrolex, fjord, local,
    central, fedit, ffa-lora, fedsa-lora, flexlora, flora, decomfl, median, trimmed-mean, krum, multi-krum, geometric-
    median, centered-clipping, bulyan, fltrust, sums, or module:Class of any Flower strategy; tree models take
    forest_union, dp-relay takes relay, unless another is given."""
    attack: Any
    """Attack by some clients of a simulation, for a study: sign-flip, scaled, gaussian, zero, stale, examples, label-
    flip, backdoor, alie, ipm, min-max, min-sum, mimic, or module:Class. Empty: all are honest."""
    attackers: float | None
    """Share of the clients that attack, rounded down; the seed draws them."""
    time_limit: str | float | None
    """Stop before this time has passed since the command began, such as 50m, 1h30m or 90s, early by a tenth of it and
    at most 30 s; a resume has the same time again. Empty: no limit."""
    devices: Any
    """phones, half-normal, alike; a .csv, .parquet or .toml file of devices; or module:function that returns a
    fedlearn.devices.Fleet. Empty: clients take no virtual time, and a simulation uses the wall clock."""
    engine: Any
    """embedded: worker processes and shared memory; inline: one process, for a debugger; ray: Flower's Simulation
    Runtime, here or on a cluster."""
    workers: int | None
    """embedded: worker processes, one thread each; 0 starts one for each core. ray: clients that run at the same time;
    0 as many as fit."""
    out: str | Path | None
    """Run folder; a new one under runs/ unless given."""
    learner: Any
    """Local training of a client: sgd, lightning, dp-sgd, scaffold, fednova, feddyn, moon, qfedavg, fedsam, fedrs,
    fedlc, fedrep, fedbabu, ditto, perfedavg, fedala, heterofl, fedrolex, fjord, low-rank, flora, two-point, tree, sums,
    exact-sums, or module:Class. Empty: the model's own."""
    loss: Any
    """Loss of a torch module: cross-entropy, next-token, mse, mae, huber, or module:name of a function (outputs,
    targets) or an Objective. Empty: by the kind of data."""
    optimizer: Any
    """Local optimizer, which starts anew in each round: sgd, adam, adamw, adagrad, rmsprop, or module:Class of a
    torch.optim.Optimizer."""
    lr_schedule: Any
    """Learning rate of round r: inverse, lr / (1 + lr_decay * (r - 1)); constant; cosine, near 0 in the last of
    rounds.total; or module:function of (training, round_number, rounds)."""
    scores: Any
    """Scores of all outputs at once, on the server and on clients: a list of scikit-learn's scorers and metrics, such
    as f1_macro and roc_auc, of module:name of a function (outputs, targets) or a metric of torchmetrics, or
    {'module:name' = {OPTION = VALUE}}. The first with a known direction finds the best round."""
    initial: Any
    """State before round 1 of a torch module: the final model of a run, by its folder, or a .safetensors or .pt file of
    a state_dict. Data, strategy and codec may differ. Empty: the module's initial weights."""
