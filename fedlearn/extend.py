"""All that a plugin imports from fedlearn, on one page: a name stays here, wherever the code behind it moves.

    from fedlearn.extend import SGD, RoundStrategy, Step

A learner, a strategy, a codec, a fold step, a schedule, a selector, an attack or a feature of the round needs no other
import from fedlearn.
Each name is imported when it is first used, so that a strategy imports no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedlearn.plugins.own_packages import claimed

if TYPE_CHECKING:
    from client.learners.learner import Learner, LocalFit, LocalTask
    from client.learners.lightning import Lightning
    from client.learners.optimizers import Update
    from client.learners.plain_answer import Answer
    from client.learners.sgd import NOT_ZERO, SGD
    from client.learners.stack import Progress
    from client.memory import NodeMemory
    from client.node_feature import NodeFeature
    from client.request import Request
    from fedlearn.aggregation import STATE, Accumulator, FoldStep, ParcelPlan, StepSpec
    from fedlearn.attacks.claim import Attack, Claim
    from fedlearn.compression.alike import LIKE_STATE
    from fedlearn.compression.codec import Codec
    from fedlearn.compression.stages import Part, Quantizer, Role, Sparsifier, Stage, Transform, nothing_from
    from fedlearn.config import RunConfig, flat_from_file
    from fedlearn.config.fields import NonNegative, Positive
    from fedlearn.config.tables.data import DataSettings
    from fedlearn.core.cohort import At, Fate, Member, NodeReport
    from fedlearn.core.errors import Refused, RunFailed, SettingError, UsageError
    from fedlearn.core.metric import ACCURACY, LOSS, TRAIN_LOSS, Combine, Metric
    from fedlearn.core.metrics import Metrics
    from fedlearn.core.seeding import rng_for
    from fedlearn.core.spread import Spread
    from fedlearn.core.state import Array, ArraySpec, Entries, Sends, State, UpdateKind, layout_of, takes_steps
    from fedlearn.data import Dataset, DataSpec, Examples, from_arrays
    from fedlearn.devices import Fleet
    from fedlearn.engine.engine_type import Engine
    from fedlearn.models import NOTHING, Evaluation, Model, ModelSpec, torch_module
    from fedlearn.models.objectives import Classification, Labels, NextToken, Objective, Regression
    from fedlearn.models.output_axes import named_logits
    from fedlearn.models.slices.slicing import SLICE, KeepUnits, Slices, Slicing, ordered_units, rolling_units
    from fedlearn.models.slices.slicing_rules import SliceRule
    from fedlearn.models.slices.tracing import SlicedModule, sliced_module
    from fedlearn.models.torch.gradients import owned
    from fedlearn.models.torch.parts import last_layer
    from fedlearn.models.torch.torch_model import TorchModel
    from server.attempt import NotCommitted
    from server.collecting import collect
    from server.committing import abandon, committed_or_not
    from server.feature import Added, Feature, Instructions, Measures, NewState
    from server.phases.evaluation_answers import ask_nodes
    from server.rules import Asked, Rule
    from server.run import ServerRun
    from server.schedules import Schedule
    from server.schedules.synchronous import Synchronous
    from server.selectors.selector import LearningSelector, Participation, Selector
    from strategies import load_strategy
    from strategies.base import RoundStrategy, Step, Turn
    from strategies.collected import Collected
    from strategies.fedavg import FedAdam, FedAvg, FedAvgM, ServerOptimizer, change_of
    from strategies.masked_mean import Float64, MaskedSum
    from strategies.robust.defence import Combination

_NAMES = {
    # what all meet: arrays, rounds, seeds, errors, settings
    "fedlearn.config": "RunConfig flat_from_file",
    "fedlearn.config.fields": "NonNegative Positive",
    "fedlearn.core.cohort": "At Fate Member NodeReport",
    "fedlearn.core.errors": "Refused RunFailed SettingError UsageError",
    "fedlearn.core.seeding": "rng_for",
    "fedlearn.core.state": "Array ArraySpec Entries Sends State UpdateKind layout_of takes_steps",
    # data, models, losses and metrics
    "fedlearn.config.tables.data": "DataSettings",
    "fedlearn.data": "DataSpec Dataset Examples from_arrays",
    "fedlearn.models": "NOTHING Evaluation Model ModelSpec torch_module",
    "fedlearn.models.output_axes": "named_logits",
    "fedlearn.models.torch.gradients": "owned",
    "fedlearn.models.objectives": "Classification Labels NextToken Objective Regression",
    "fedlearn.models.torch.parts": "last_layer",
    "fedlearn.models.torch.torch_model": "TorchModel",
    "fedlearn.core.metric": "ACCURACY LOSS TRAIN_LOSS Combine Metric",
    "fedlearn.core.metrics": "Metrics",
    "fedlearn.core.spread": "Spread",
    # slices
    "fedlearn.models.slices.slicing_rules": "SliceRule",
    "fedlearn.models.slices.slicing": "SLICE KeepUnits Slices Slicing ordered_units rolling_units",
    "fedlearn.models.slices.tracing": "SlicedModule sliced_module",
    # learners
    "client.learners.learner": "Learner LocalFit LocalTask",
    "client.learners.lightning": "Lightning",
    "client.learners.optimizers": "Update",
    "client.learners.sgd": "NOT_ZERO SGD",
    "client.learners.stack": "Progress",
    "client.memory": "NodeMemory",
    # strategies
    "strategies": "load_strategy",
    "strategies.base": "RoundStrategy Step Turn",
    "strategies.collected": "Collected",
    "strategies.fedavg": "FedAdam FedAvg FedAvgM ServerOptimizer change_of",
    "strategies.masked_mean": "Float64 MaskedSum",
    "strategies.robust.defence": "Combination",
    # fold steps and parcels
    "fedlearn.aggregation": "STATE Accumulator FoldStep ParcelPlan StepSpec",
    # codecs
    "fedlearn.compression.alike": "LIKE_STATE",
    "fedlearn.compression.codec": "Codec",
    "fedlearn.compression.stages": "Part Quantizer Role Sparsifier Stage Transform nothing_from",
    # attacks
    "fedlearn.attacks.claim": "Attack Claim",
    # schedules and selectors
    "server.attempt": "NotCommitted",
    "server.collecting": "collect",
    "server.committing": "abandon committed_or_not",
    "server.run": "ServerRun",
    "server.schedules": "Schedule",
    "server.schedules.synchronous": "Synchronous",
    "server.selectors.selector": "LearningSelector Participation Selector",
    # features of a round, and their parts at nodes
    "server.feature": "Added Feature Instructions Measures NewState",
    "server.rules": "Asked Rule",
    "server.phases.evaluation_answers": "ask_nodes",
    "client.node_feature": "NodeFeature",
    "client.learners.plain_answer": "Answer",
    "client.request": "Request",
    # devices and engines
    "fedlearn.devices": "Fleet",
    "fedlearn.engine.engine_type": "Engine",
}
"""Module -> the names of it that stand here; type checkers read the imports above instead."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedlearn.extend' has no attribute {name!r}")
    with claimed():
        found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found
