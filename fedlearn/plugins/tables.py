"""Every table of plugins, on one page: a short name, and the ``module:attribute`` behind it.

This page is data alone: it imports nothing, and no other file of the kernel names what lies above it. A table is read
by a `fedlearn.plugins.registry.Registry` where its plugins are used; help and completion read the names here. A new
plugin is one file and one line. Names of a user's own take the form ``module:attribute``, and need no line.
"""

from __future__ import annotations

SCHEDULES = {
    "synchronous": "server.schedules.synchronous:Synchronous",
    "buffered": "server.schedules.asynchronous.buffered:Buffered",
    "immediate": "server.schedules.asynchronous.immediate:Immediate",
}
"""Orders of the phases of a run: classes called with a `server.run.ServerRun`."""

SELECTORS = {
    "uniform": "server.selectors.selector:Selector",
    "ranked": "server.selectors.ranked:Ranked",
    "poisson": "server.selectors.poisson:Poisson",
    "power-of-choice": "server.selectors.power_of_choice:PowerOfChoice",
    "oort": "server.selectors.oort:Oort",
    "tiers": "server.selectors.tiers:Tiers",
}
"""Ways to draw a cohort from the ready nodes."""

DATASETS = {
    "auto": "fedlearn.data.loading:load_auto",
    "cifar10": "fedlearn.data.cifar10:load",
    "digits": "fedlearn.data.digits:load",
    "topics": "fedlearn.data.topics:load",
    "california": "fedlearn.data.california:load",
    "diabetes": "fedlearn.data.diabetes:load",
    "adult": "fedlearn.data.adult:load",
    "synthetic": "fedlearn.data.synthetic:load",
    "auto-regression": "fedlearn.data.loading:load_auto_regression",
}
"""Functions that load a data set."""

DATA_READERS = {
    "hub:": "fedlearn.data.sources.libraries:from_hf",
    "folder": "fedlearn.data.sources.image_folder:from_folder",
    "folder of .json": "fedlearn.data.sources.leaf:from_leaf",
    "folder of .npz": "fedlearn.data.sources.pfllib:from_pfllib",
    "windows": "fedlearn.data.sources.windows:from_windows",
    ".csv": "fedlearn.data.sources.named_columns:from_table",
    ".tsv": "fedlearn.data.sources.named_columns:from_table",
    ".parquet": "fedlearn.data.sources.named_columns:from_table",
    ".json": "fedlearn.data.sources.leaf:from_leaf",
    ".npz": "fedlearn.data.sources.npz:from_npz",
    ".toml": "fedlearn.data.encoded_tables:load_schema_file",
}
"""Functions that read a data set named by a path, by the kind of the path."""

PARTITIONS = {
    "iid": "fedlearn.data.flower_partitioners:partitions",
    "dirichlet": "fedlearn.data.flower_partitioners:partitions",
    "pathological": "fedlearn.data.flower_partitioners:partitions",
    "shard": "fedlearn.data.flower_partitioners:partitions",
    "natural": "fedlearn.data.flower_partitioners:partitions",
    "equal-dirichlet": "fedlearn.data.equal_dirichlet:equal_dirichlet",
    "linear": "flwr_datasets.partitioner:LinearPartitioner",
    "square": "flwr_datasets.partitioner:SquarePartitioner",
    "exponential": "flwr_datasets.partitioner:ExponentialPartitioner",
    "size": "flwr_datasets.partitioner:SizePartitioner",
    "distribution": "flwr_datasets.partitioner:DistributionPartitioner",
    "continuous": "flwr_datasets.partitioner:ContinuousPartitioner",
    "inner-dirichlet": "flwr_datasets.partitioner:InnerDirichletPartitioner",
    "grouped-natural-id": "flwr_datasets.partitioner:GroupedNaturalIdPartitioner",
    "id-to-size": "flwr_datasets.partitioner:IdToSizeFncPartitioner",
}
"""Ways to give each node its share of a data set."""

MODELS = {
    "linear": "fedlearn.models.networks.linear:Linear",
    "mlp": "fedlearn.models.networks.network_rows:MLP",
    "cnn": "fedlearn.models.networks.network_rows:CNN",
    "cnn-large": "fedlearn.models.networks.network_rows:CNN_LARGE",
    "resnet18": "fedlearn.models.networks.resnet18:ResNet18",
    "lstm": "fedlearn.models.networks.network_rows:LSTM",
    "transformer": "fedlearn.models.networks.transformer:Transformer",
    "dp-forest": "fedlearn.private_trees.federated.tree_rows:DP_FOREST",
    "dp-relay": "fedlearn.private_trees.federated.tree_rows:DP_RELAY",
    "dp-classifier": "fedlearn.private_trees.federated.tree_rows:DP_CLASSIFIER",
    "dp-random-forest": "fedlearn.private_trees.federated.tree_rows:DP_RANDOM_FOREST",
    "pf-forest": "fedlearn.private_trees.federated.tree_rows:PF_FOREST",
    "dp-boosting": "fedlearn.private_trees.federated.tree_rows:DP_BOOSTING",
    "dp-naive-bayes": "fedlearn.private_trees.federated.tree_rows:DP_NAIVE_BAYES",
    "exact-boosting": "fedlearn.private_trees.exact.exact_row:EXACT_BOOSTING",
    "dp-statistics": "fedlearn.statistics.statistics_rows:DP_STATISTICS",
    "statistics": "fedlearn.statistics.statistics_rows:STATISTICS",
    "describe": "fedlearn.statistics.statistics_rows:DESCRIBE",
    "glm": "fedlearn.statistics.statistics_rows:GLM",
    "kaplan-meier": "fedlearn.statistics.statistics_rows:KAPLAN_MEIER",
    "cox": "fedlearn.statistics.statistics_rows:COX",
    "dp-describe": "fedlearn.statistics.statistics_rows:DP_DESCRIBE",
    "dp-glm": "fedlearn.statistics.statistics_rows:DP_GLM",
    "dp-cox": "fedlearn.statistics.statistics_rows:DP_COX",
    "dp-kaplan-meier": "fedlearn.statistics.statistics_rows:DP_KAPLAN_MEIER",
}
"""Torch modules, and rows of models (`fedlearn.models.ModelSpec`) in capitals."""

OBJECTIVES = {
    "cross-entropy": "fedlearn.models.objectives:Classification",
    "next-token": "fedlearn.models.objectives:NextToken",
    "mse": "fedlearn.models.objectives:Regression",
    "mae": "torch.nn.functional:l1_loss",
    "huber": "torch.nn.functional:huber_loss",
}
"""Losses of torch modules."""

LEARNERS = {
    "sgd": "client.learners.sgd:SGD",
    "lightning": "client.learners.lightning:Lightning",
    "dp-sgd": "client.learners.dp_sgd:DPSGD",
    "scaffold": "fedlearn.algorithms.scaffold:ScaffoldSGD",
    "fednova": "fedlearn.algorithms.fednova:FedNovaSGD",
    "feddyn": "fedlearn.algorithms.feddyn:FedDynSGD",
    "moon": "fedlearn.algorithms.moon:MoonSGD",
    "qfedavg": "fedlearn.algorithms.qfedavg:QFedAvgSGD",
    "fedsam": "fedlearn.algorithms.fedsam:FedSAMSGD",
    "fedrs": "fedlearn.algorithms.fedrs:FedRSSGD",
    "fedlc": "fedlearn.algorithms.fedlc:FedLCSGD",
    "fedrep": "fedlearn.algorithms.fedrep:FedRepSGD",
    "fedbabu": "fedlearn.algorithms.fedbabu:FedBABUSGD",
    "ditto": "fedlearn.algorithms.ditto:DittoSGD",
    "perfedavg": "fedlearn.algorithms.perfedavg:PerFedAvgSGD",
    "fedala": "fedlearn.algorithms.fedala:FedALASGD",
    "heterofl": "fedlearn.algorithms.heterofl:HeteroFLSGD",
    "fedrolex": "fedlearn.algorithms.heterofl:HeteroFLSGD",
    "fjord": "fedlearn.algorithms.fjord:FjordSGD",
    "low-rank": "fedlearn.algorithms.adapters.low_rank:LowRankSGD",
    "flora": "fedlearn.algorithms.adapters.low_rank:FLoRASGD",
    "two-point": "fedlearn.algorithms.scalars.two_point:TwoPoint",
    "tree": "fedlearn.private_trees.federated.learners.tree_learner:TreeLearner",
    "sums": "client.learners.sums_learner:SumsLearner",
    "exact-sums": "client.learners.sums_learner:ExactSumsLearner",
}
"""What a node does to improve the state."""

STATES = {
    "two-point": "fedlearn.algorithms.scalars.two_point:by_scalars",
}
"""Learner -> a function (model, config) that returns the run's model with the state that the learner needs."""

LR_SCHEDULES = {
    "inverse": "fedlearn.models.learning_rates:inverse",
    "constant": "fedlearn.models.learning_rates:constant",
    "cosine": "fedlearn.models.learning_rates:cosine",
}
"""Learning rates by round."""

OPTIMIZERS = {
    "sgd": "client.learners.optimizers:sgd",
    "adam": "torch.optim:Adam",
    "adamw": "torch.optim:AdamW",
    "adagrad": "torch.optim:Adagrad",
    "rmsprop": "torch.optim:RMSprop",
}
"""Steps of local training."""

CODECS = {
    "identity": "fedlearn.compression.identity:Identity",
    "residual": "fedlearn.compression.residual:Residual",
    "drop": "fedlearn.compression.drop:Drop",
    "rand-k": "fedlearn.compression.rand_k:RandK",
    "top-k": "fedlearn.compression.top_k:TopK",
    "rotate": "fedlearn.compression.rotate:Rotate",
    "quantize": "fedlearn.compression.quantize:Quantize",
    "eden": "fedlearn.compression.eden:Eden",
    "sign": "fedlearn.compression.sign:Sign",
    "fp16": "fedlearn.compression.fp16:Fp16",
    "entropy": "fedlearn.compression.entropy:Entropy",
}
"""Codec stages."""

STRATEGIES = {
    "fedavg": "strategies.fedavg:FedAvg",
    "fedavgm": "strategies.fedavg:FedAvgM",
    "fedadam": "strategies.fedavg:FedAdam",
    "fedyogi": "strategies.fedyogi:FedYogi",
    "fedadagrad": "strategies.fedadagrad:FedAdagrad",
    "fedexp": "strategies.fedexp:FedExP",
    "fedprox": "fedlearn.algorithms.fedprox:FedProx",
    "scaffold": "fedlearn.algorithms.scaffold:Scaffold",
    "fednova": "fedlearn.algorithms.fednova:FedNova",
    "feddyn": "fedlearn.algorithms.feddyn:FedDyn",
    "moon": "fedlearn.algorithms.moon:Moon",
    "qfedavg": "fedlearn.algorithms.qfedavg:QFedAvg",
    "fedsam": "fedlearn.algorithms.fedsam:FedSAM",
    "fedrs": "fedlearn.algorithms.fedrs:FedRS",
    "fedlc": "fedlearn.algorithms.fedlc:FedLC",
    "fedbn": "fedlearn.algorithms.fedbn:FedBN",
    "fedper": "fedlearn.algorithms.fedper:FedPer",
    "lgfedavg": "fedlearn.algorithms.lgfedavg:LGFedAvg",
    "fedrep": "fedlearn.algorithms.fedrep:FedRep",
    "fedbabu": "fedlearn.algorithms.fedbabu:FedBABU",
    "ditto": "fedlearn.algorithms.ditto:Ditto",
    "perfedavg": "fedlearn.algorithms.perfedavg:PerFedAvg",
    "fedala": "fedlearn.algorithms.fedala:FedALA",
    "heterofl": "fedlearn.algorithms.heterofl:HeteroFL",
    "fedrolex": "fedlearn.algorithms.fedrolex:FedRolex",
    "fjord": "fedlearn.algorithms.fjord:Fjord",
    "local": "fedlearn.algorithms.local:Local",
    "central": "fedlearn.algorithms.central:Central",
    "fedit": "fedlearn.algorithms.adapters.fedit:FedIT",
    "ffa-lora": "fedlearn.algorithms.adapters.ffa_lora:FFALoRA",
    "fedsa-lora": "fedlearn.algorithms.adapters.fedsa_lora:FedSALoRA",
    "flexlora": "fedlearn.algorithms.adapters.flexlora:FlexLoRA",
    "flora": "fedlearn.algorithms.adapters.flora:FLoRA",
    "decomfl": "fedlearn.algorithms.scalars.decomfl:DeComFL",
    "median": "strategies.median:Median",
    "trimmed-mean": "strategies.median:TrimmedMean",
    "krum": "strategies.robust.krum:Krum",
    "multi-krum": "strategies.robust.krum:MultiKrum",
    "geometric-median": "strategies.robust.geometric_median:GeometricMedian",
    "centered-clipping": "strategies.robust.centered_clipping:CenteredClipping",
    "bulyan": "strategies.robust.bulyan:Bulyan",
    "fltrust": "strategies.robust.fltrust:FLTrust",
    "forest_union": "fedlearn.private_trees.federated.strategies.forest_union:ForestUnion",
    "relay": "fedlearn.private_trees.federated.strategies.relay_strategy:Relay",
    "sums": "strategies.sums_strategy:Sums",
}
"""How reports become the next state."""

ALGORITHMS: dict[str, dict[str, object]] = {
    "fedprox": {"training.proximal_mu": 0.01},
    "scaffold": {"training.learner": "scaffold"},
    "fednova": {"training.learner": "fednova"},
    "feddyn": {"training.learner": "feddyn", "training.proximal_mu": 0.1},
    "moon": {"training.learner": "moon"},
    "qfedavg": {"training.learner": "qfedavg"},
    "fedsam": {"training.learner": "fedsam"},
    "fedrs": {"training.learner": "fedrs"},
    "fedlc": {"training.learner": "fedlc"},
    "fedbn": {"training.personal": "norm"},
    "fedper": {"training.personal": "last"},
    "lgfedavg": {"training.personal": "!last"},
    "fedrep": {"training.learner": "fedrep", "training.personal": "last"},
    "fedbabu": {"training.learner": "fedbabu", "training.personal": "last"},
    "ditto": {"training.learner": "ditto"},
    "perfedavg": {"training.learner": "perfedavg"},
    "fedala": {"training.learner": "fedala"},
    "heterofl": {"training.learner": "heterofl"},
    "fedrolex": {"training.learner": "fedrolex"},
    "fjord": {"training.learner": "fjord"},
    "local": {"training.baseline": "local"},
    "central": {"training.baseline": "central"},
}
"""Strategy -> settings of nodes that go with it: filled in where they are not given, and never empty."""

ADAPTERS: dict[str, dict[str, object]] = {
    "fedit": {},
    "ffa-lora": {"training.send": ["unfrozen", "!*lora*_A"]},
    "fedsa-lora": {"training.personal": "*lora*_B"},
    "flexlora": {"training.learner": "low-rank"},
    "flora": {"training.learner": "flora", "compression.send": "update", "compression.codec": "entropy"},
}
"""Strategy -> settings that it fills in: rules for low-rank adapters."""

SCALARS: dict[str, dict[str, object]] = {
    "decomfl": {
        "training.learner": "two-point",
        "training.local_epochs": 1,
        "training.momentum": 0.0,
        "compression.send": "weights",
    },
}
"""Strategy -> settings that it fills in: strategies that train by directional derivatives."""

PRESETS = ALGORITHMS | ADAPTERS | SCALARS

ATTACKS = {
    "sign-flip": "fedlearn.attacks.sign_flip:SignFlip",
    "scaled": "fedlearn.attacks.scaled:Scaled",
    "gaussian": "fedlearn.attacks.noise_attack:Gaussian",
    "zero": "fedlearn.attacks.zero:Zero",
    "stale": "fedlearn.attacks.stale:StaleReplay",
    "examples": "fedlearn.attacks.false_counts:ManyExamples",
    "label-flip": "fedlearn.attacks.label_flip:LabelFlip",
    "backdoor": "fedlearn.attacks.backdoor:Backdoor",
    "alie": "fedlearn.attacks.alie:Alie",
    "ipm": "fedlearn.attacks.ipm:Ipm",
    "min-max": "fedlearn.attacks.min_max:MinMax",
    "min-sum": "fedlearn.attacks.min_sum:MinSum",
    "mimic": "fedlearn.attacks.mimic:Mimic",
}
"""How attackers lie in a study: classes derived from `fedlearn.attacks.Attack`."""

FOLD_STEPS = {
    "clip": "fedlearn.aggregation.steps:ClippedTo",
}
"""What one node's report goes through before it is added up."""

DEVICES = {
    "phones": "fedlearn.devices.made:phones",
    "half-normal": "fedlearn.devices.made:half_normal",
    "alike": "fedlearn.devices.made:alike",
}
"""Fleets of devices in virtual time."""

ENGINES = {
    "embedded": "fedlearn.engine.embedded:EMBEDDED",
    "inline": "fedlearn.engine.inline:INLINE",
    "ray": "fedlearn.engine.ray_runtime:RAY",
}
"""How a run is executed."""

LISTENERS = {
    "tensorboard": "fedlearn.report.listeners.tensorboard:TensorBoard",
    "mlflow": "fedlearn.report.listeners.mlflow:MLflow",
    "wandb": "fedlearn.report.listeners.weights_and_biases:WeightsAndBiases",
}
"""Tools to which the events of a run are passed on."""

HANDLERS = {
    "query.ready": "client.handlers.selection_handler:ready",
    "query.round_over": "client.handlers.selection_handler:round_over",
    "query.shares": "client.handlers.summing:share",
    "query.survivors": "client.handlers.summing:sign",
    "query.unmasking": "client.handlers.summing:unmask",
    "query.unsent": "client.handlers.selection_handler:unsent",
    "query.feature": "client.handlers.features:asked",
    "train": "client.handlers.training:train",
    "evaluate": "client.handlers.evaluation_handler:evaluate",
    "evaluate.on_test_set": "client.handlers.evaluation_handler:evaluate_on_test_set",
    "evaluate.on_test_rows_once": "client.handlers.evaluation_handler:evaluate_on_test_rows_once",
}
"""What a node does with a message of each type: functions called with a `client.request.Request`."""

FEATURES = {
    "secure sums": "server.features.secure_sums.secure_sums:SecureSums",
    "baseline": "server.features.evaluation.baseline:Baseline",
    "protected nodes": "server.features.privacy.protected_nodes:ProtectedNodes",
    "attackers": "server.features.attacks.attackers:Attackers",
    "backdoor": "server.features.attacks.backdoor_success:BackdoorSuccess",
    "downlink": "server.features.downlink.downlink:CodedDownlink",
    "growing state": "server.features.downlink.growing_state:GrowingState",
    "slices": "server.features.slices:SlicedClients",
    "measures on nodes": "server.features.evaluation.on_nodes:MeasuresOnNodes",
    "confusion": "server.features.evaluation.confusion:Confusions",
    "contributions": "server.features.contributions.keeping:Contributions",
    "root training": "server.features.root_training:RootTraining",
}
"""What a run does beside its rounds, if its settings ask for it: classes derived from `server.feature.Feature`.

Their order is that of `server.feature`; those of ``rounds.features`` come behind them.
"""

NODE_FEATURES = {
    "local baseline": "client.features.evaluation.local_baseline:LocalBaseline",
    "comparison models": "client.features.evaluation.comparison_models:ComparisonModels",
    "local noise": "client.features.local_noise:LocalNoise",
    "attack": "client.features.attacked:Attacked",
}
"""The parts at nodes of features: classes derived from `client.node_feature.NodeFeature`, in their order."""

TABLES = {
    "rounds.schedule": SCHEDULES,
    "rounds.selector": SELECTORS,
    "data.dataset": DATASETS,
    "data.partition": PARTITIONS,
    "model.name": MODELS,
    "model.loss": OBJECTIVES,
    "training.learner": LEARNERS,
    "training.lr_schedule": LR_SCHEDULES,
    "training.optimizer": OPTIMIZERS,
    "compression.codec": CODECS,
    "strategy.name": STRATEGIES,
    "strategy.steps": FOLD_STEPS,
    "attack.name": ATTACKS,
    "devices.name": DEVICES,
    "engine.name": ENGINES,
    "--log": LISTENERS,
}
"""Setting -> its table; ``--log`` is a flag alone."""

SERVER_APP = "server.app:app"
"""The ServerApp that every engine runs, by the name that pyproject.toml gives to Flower."""
SERVER_BY_HAND = "server.schedules.by_hand:RoundsByHand"
"""What makes the steps of a round when they are asked for, of an opened run."""
SERVER_OPENED = "server.app:opened"
"""What opens a run, all of it checked, and writes its results in the end."""
CLIENT_APP = "client.app:app"
"""The ClientApp that every engine runs."""
CLIENT_MANY = "client.app:handle_many"
"""What answers training messages of several nodes, which it trains in one computation."""
CLIENT_OWN = "client.isolated_fits:state_of_node"
"""What returns the model of a single node, from the memory of the node in a run folder."""
CLIENT_ABOUT = "client.app:about"
"""What a server asks of the nodes of a run: a `fedlearn.core.client_facts.NodeTraits`."""
REBUILT = "server.features.contributions.rebuilt:Rebuilt"
"""What rebuilds the models of coalitions from the stored changes of a run."""
CLIENT_TRIAL = "client.app:trial"
"""What tries the learner before round 1: a `fedlearn.core.client_facts.NodeTrial`."""
CLIENT_ROOT = "client.features.root_fit:fit_root"
"""What trains on the server's own root examples, for defences that compare nodes with them."""
CLIENT_PREPARE = "client.app:prepare"
"""What a process of a deployment imports and loads before it forks."""
CLIENT_AUDITS = "fedlearn.auditing.records.both:both"
"""What audits the learner of `--private records`, as it is and with planted mistakes."""
CLIENT_FITS = "fedlearn.auditing.records.fits:fits"
"""What audits the coins and the noise that it draws in many fits."""
CLIENT_DOORS = "fedlearn.auditing.nodes.doors:doors"
"""What audits the way of its examples, from the file to the node."""
CLIENT_CANARIES = "fedlearn.auditing.records.canaries:audited"
"""What audits one training of it by canaries."""
NODE_AUDITS = {
    "model": "fedlearn.auditing.nodes.chosen_model:model",
    "changes": "fedlearn.auditing.nodes.chosen_model:HOSTILE",
    "chosen": "fedlearn.auditing.nodes.chosen_model:chosen",
    "mistakes of a client": "fedlearn.auditing.nodes.planted_in_clipping:PLANTED",
    "unclipped": "fedlearn.auditing.nodes.planted_in_clipping:unclipped",
    "mistakes of a server": "fedlearn.auditing.nodes.server_mistakes:PLANTED",
    "unguarded": "fedlearn.auditing.nodes.server_mistakes:unguarded",
    "undrawn": "fedlearn.auditing.nodes.server_mistakes:undrawn",
    "draws": "fedlearn.auditing.nodes.server_mistakes:draws",
}
"""What audits runs of `--private nodes`: a model, what its nodes do, mistakes, and the audit of the sampling."""
