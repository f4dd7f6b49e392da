"""Data set and model of a run, loaded once in each process that computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedlearn.config import RunConfig, from_flower, per_run
from fedlearn.config.tables.learning_settings import ModelSettings
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.core.metric import EPSILON
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Layout, State, UpdateKind
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.dataset import Dataset
from fedlearn.data.naming import is_map
from fedlearn.data.private_examples import DataSource, Protected, with_all_rows
from fedlearn.data.scaling import scaled, with_scaling
from fedlearn.data.validation import FEWEST, SHARE, SomeRows, measured_rows
from fedlearn.models import Evaluation, Model, load_model, model_spec, planned_for
from fedlearn.models.model import (
    Analyzing,
    Condensing,
    Counting,
    Ensemble,
    Finished,
    Finishing,
    Scored,
    Summed,
    Tryable,
)
from fedlearn.models.torch.hooks import LEARNER, OPTIMIZERS, hook_of
from fedlearn.models.torch.initial import found_initial, initial_from
from fedlearn.models.torch.misfits import why_it_fails
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import LEARNERS
from fedlearn.secure.whole import WholeNumbers

if TYPE_CHECKING:
    from fedlearn.secure.noisy import NoisyChanges

TRIED = 2  # examples of the trial step: batch normalisation needs more than one
PART_OF_A_COLUMN = 1000  # examples that show the scale of a column
TAKE_ROWS_AS_THEY_ARE = ("linear", "mlp")


def dataset_of(config: RunConfig) -> Dataset:
    """Return the run's data set; nothing that only the model needs is imported."""
    source = DataSource(_asked_for(config), config.data.dir, config.data.options)
    found = source.read(_protected(config), must_be_declared=config.privacy.noise != "seeded")
    found = with_all_rows(found) if model_spec(config.model.name).all_rows else found
    return scaled(found, config.data.scaling) if config.data.scaling else found


def protects_each_record(config: RunConfig) -> bool:
    """Return whether nodes publish nothing of a record but what a budget pays for."""
    return _protected(config) is Protected.RECORDS


def _protected(config: RunConfig) -> Protected:
    is_private = model_spec(config.model.name).is_private or _is_private_guest(config.training.learner)
    if is_private or config.protects_records:
        return Protected.RECORDS
    return Protected.NODES if config.protects_nodes else Protected.NOTHING


def _is_private_guest(learner: str) -> bool:
    """Return whether a learner from outside keeps all about records to itself but what a budget pays for.

    The server of a network need not know a learner that its nodes have; it holds none of their records.
    """
    with suppress(ImportError, AttributeError, ValueError):
        return ":" in learner and bool(getattr(load_reference(learner), "is_private", False))
    return False


def _asked_for(config: RunConfig) -> str:
    """Return the name of the data set: the user's, or the one that goes with the model."""
    name = config.data.dataset
    return model_spec(config.model.name).dataset if name == "auto" else name


def is_ours(config: RunConfig) -> bool:
    """Return whether the run's data set comes with fedlearn, so that everybody may know its rows."""
    return DataSource(_asked_for(config)).is_ours


def with_found_data(config: RunConfig) -> RunConfig:
    """Return the settings with the data set and the device that were found, as results must name them."""
    config = with_scaling(config)
    return with_found(config, dataset_of(config))


def with_found(config: RunConfig, dataset: Dataset) -> RunConfig:
    """Return the settings with this data set and its notice, and with the device that modules are computed on."""
    asked = _asked_for(config)
    name = asked if ":" in asked else dataset.name
    changes = {
        "dataset": name,
        "notice": dataset.notice or config.data.notice,
        "validation_share": config.data.validation_share or str(_usual_share(config, dataset)),
    }
    if is_map(config.data.partition):
        changes["partition"] = str(Path(config.data.partition).expanduser().absolute())
    found = config.data.model_copy(update=changes)
    model = _found_initial(config)
    engine = config.engine.model_copy(update={"device": _found_device(config)})
    return config.model_copy(update={"data": found, "model": model, "engine": engine})


def can_validate(config: RunConfig, *, test_is_public: bool | None = None) -> bool:
    """Return whether the server measures rows that may choose: of a private run, only public ones."""
    if config.evaluation.where != "server":
        return False
    if _protected(config) is Protected.NOTHING or test_is_public is not None:
        return _protected(config) is Protected.NOTHING or bool(test_is_public)
    return is_ours(config) or _declares_public_tests(config)


def _declares_public_tests(config: RunConfig) -> bool:
    """Return whether the data set names public test rows; False if it cannot be read: the run says why."""
    with suppress(FedlearnError):
        return bool(dataset_of(config).test_is_public)
    return False


def _usual_share(config: RunConfig, dataset: Dataset) -> float:
    """Return the share of validation rows where the settings leave it open: a run that stops early chooses its end."""
    stops = bool(config.stop.target or config.stop.patience)
    is_public = is_ours(config) if dataset.test_is_public is None else dataset.test_is_public
    can = can_validate(config, test_is_public=is_public)
    return SHARE if stops and can and len(dataset.test) >= FEWEST else 0.0


def rows_measured(config: RunConfig, dataset: Dataset, *, once: bool = False) -> SomeRows:
    """Return the server's rows that rounds measure; with `once`, the test rows that are measured after the last round.

    They are the same rows where there are no validation rows.
    """
    share = float(config.data.validation_share or 0)
    return measured_rows(dataset.test, share, own=dataset.validation, once=once)


def _found_initial(config: RunConfig) -> ModelSettings:
    """Return the settings of the model with the file of its state before round 1, if they name one."""
    if config.model.initial and not model_spec(config.model.name).trains_in_steps:
        raise SettingError(
            "model.initial", config.model.initial,
            f"it is for torch modules; model {config.model.name!r} has no parameters that a run could go on from",
        )  # fmt: skip
    return found_initial(config.model)


def _found_device(config: RunConfig) -> str:
    """Return the run's device; raise SettingError where it is missing. Torch is not imported for the CPU."""
    name = config.engine.device
    if name == "cpu" or not model_spec(config.model.name).trains_in_steps:
        return "cpu"
    from fedlearn.models.torch.device import device_of

    return str(device_of(name))


def spec_of(config: RunConfig, dataset: Dataset) -> DataSpec:
    """Return the public facts of the run's data, with the functions that make inputs of its examples.

    Raises
    ------
    SettingError
        If one of them sees several records, each of which is protected.
    """
    transform, collate = config.data.transform, config.data.collate
    if collate and protects_each_record(config):
        why = "it gets several records at once, and one must change no other: name a data.transform that sizes each"
        raise SettingError("data.collate", collate, why)
    return replace(dataset.spec, transform=transform, collate=collate) if transform or collate else dataset.spec


@per_run
def loaded(config: RunConfig) -> tuple[Dataset, Model]:
    """Return the run's data set and model."""
    dataset = dataset_of(config)
    model = load_model(config.model.name, spec_of(config, dataset), config.model.options, config.model.loss)
    for name in ("send", "personal"):
        if (given := getattr(config.training, name)) and not hasattr(model, "parts"):
            why = f"model {config.model.name!r} is no torch module, whose layers could be named: leave it out"
            raise SettingError(f"training.{name}", given, why)
    model = planned_for(model, config)
    if config.evaluation.scores and not isinstance(model, Scored):
        why = "is no torch module, and keeps no outputs to score: leave evaluation.scores empty"
        raise SettingError("evaluation.scores", config.evaluation.scores, f"model {config.model.name!r} {why}")
    return dataset, model


def whole_numbers_of(config: RunConfig, before: Layout) -> WholeNumbers | NoisyChanges | None:
    """Return how whole numbers of a report go into a secure sum, from the layout of the state.

    They are the sums of a model that has some, or changes to which nodes add shares of noise; else None.
    """
    if config.nodes_add_noise:
        from fedlearn.secure.noisy import NoisyChanges

        return NoisyChanges.of(config, before)
    model, nodes = loaded(config)[1], config.largest_cohort
    if not isinstance(model, Summed):
        return None
    return model.whole_numbers(before, max_examples=config.gate.max_examples, nodes=nodes)


def fingerprint_of(config: RunConfig, dataset: Dataset) -> str:
    """Return the identity of the run's data: the hash of all examples, and that of a partition file."""
    if not is_map(config.data.partition):
        return dataset.fingerprint
    dealt = Path(config.data.partition).expanduser().read_bytes()
    return f"{dataset.fingerprint} dealt by {sha256(dealt).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a model and its data for the server, which imports neither.

    `is_private`: whether nodes publish only what a budget pays for. `test_is_public`: whether the test rows are public,
    because the data's file says so, or because they come with fedlearn. `is_public`: whether all rows are. `unsent`:
    the arrays of the model that are never sent, as they are before round 1: frozen and personal ones. `auxiliary`: the
    names of those that follow from the others, and are computed anew from each new state (`auxiliary_of`). `counts`:
    whether the state is statistics of records. `finishes`, `analyzes`: whether the state says when the run is at its
    end, and is the answer of an analysis. `condenses`: whether the model condenses each new state.
    """

    update_kind: UpdateKind
    metrics: Metrics
    spec: DataSpec
    sums: bool = False
    fingerprint: str = ""  # of the data set, and of the file of a partition
    is_private: bool = False
    test_is_public: bool = False
    is_public: bool = False
    tied: Mapping[str, str] = field(default_factory=dict)  # further names of a parameter -> the one that is stored
    has_own_rate: bool = False  # whether module or learner set the learning rate, so that no setting says it
    unsent: State = field(default_factory=dict)
    counts: bool = False
    finishes: bool = False
    condenses: bool = False
    analyzes: bool = False
    auxiliary: tuple[str, ...] = ()

    def of_private_learner(self) -> Traits:
        """Return the traits under a private learner: the run is private, and reports an epsilon, whatever the model."""
        metrics = self.metrics
        if metrics.privacy_loss is None:
            metrics = replace(metrics, reported=(*metrics.reported, EPSILON))
        return replace(self, metrics=metrics, is_private=True)


def traits(settings: Mapping[str, Any], state: State) -> Traits:
    """Return the traits of the run's model."""
    config = from_flower(settings)
    dataset, model = loaded(config)
    sums = isinstance(model, Ensemble) and model.sums
    is_private = model_spec(config.model.name).is_private or model.metrics.privacy_loss is not None
    test_is_public = is_ours(config) if dataset.test_is_public is None else dataset.test_is_public
    return Traits(
        model.update_kind,
        model.metrics,
        spec_of(config, dataset),
        sums,
        fingerprint_of(config, dataset),
        is_private,
        test_is_public,
        is_ours(config),
        tied=getattr(model, "tied", {}),
        has_own_rate=_has_own_rate(config, model),
        unsent=getattr(model, "unsent", {}),
        counts=isinstance(model, Counting),
        finishes=isinstance(model, Finishing),
        condenses=isinstance(model, Condensing),
        analyzes=isinstance(model, Analyzing),
        auxiliary=auxiliary_in(model),
    )


def auxiliary_in(model: Model) -> tuple[str, ...]:
    """Return the names of a model's arrays that follow from the others."""
    return model.parts.auxiliary if hasattr(model, "parts") else ()


def auxiliary_of(settings: Mapping[str, Any], state: State) -> State:
    """Return the auxiliary arrays of a state, as the module computes them."""
    model: Any = loaded(from_flower(settings))[1]
    found: State = model.auxiliary_of(state)
    return found


def _has_own_rate(config: RunConfig, model: Model) -> bool:
    name = config.training.learner or model.learner
    if ":" in name:
        with suppress(Exception):  # the server may lack the learner
            usual, own = (load_reference(each).learning_rate for each in (LEARNERS["sgd"], name))
            return usual is not own
        return False
    return name == LEARNER and hook_of(getattr(model, "module", None), OPTIMIZERS) is not None


def trial(settings: Mapping[str, Any], state: State) -> tuple[str, ...]:
    """Try a step of the model on two examples, if it can be tried, so that errors show before the first round.

    Returns
    -------
    tuple of str
        Notes on what is likely a mistake, one line each.

    Raises
    ------
    SettingError
        If the step fails; one line with the model and the shape of the examples.
    """
    config = from_flower(settings)
    dataset, model = loaded(config)
    examples = max(dataset.test, dataset.train, key=lambda each: min(len(each), TRIED))  # the test set if long enough
    if not isinstance(model, Tryable) or not len(examples):
        return ()
    two = examples.at(np.arange(TRIED) % len(examples))
    try:
        outputs = model.try_step(two)
    except SettingError:
        raise
    except Exception as error:  # of the user's own code
        about = f"{dataset.spec.classes} classes" if dataset.spec.classes else "numbers"
        precision, plain = config.training.precision, RunConfig().training.precision
        setting = ("model.name", config.model.name) if precision == plain else ("training.precision", precision)
        raise SettingError(
            *setting,
            f"a step on two examples of {dataset.name!r} (shape {dataset.spec.shape}, {about}) fails: "
            f"{why_it_fails(error)}",
        ) from error  # fmt: skip
    if isinstance(model, Scored):
        rows = len(dataset.test) if config.evaluation.where == "server" else 0
        model.try_scores(outputs, rows=rows, examples=two)
    return tuple(_notes(config, dataset, model, examples, outputs))


def _notes(config: RunConfig, dataset: Dataset, model: Model, examples: Examples, outputs: object) -> Iterator[str]:
    from fedlearn.models.torch.notes import (
        LOOKED_AT,
        clipped_statistics,
        notes_on,
        notes_on_adapters,
        notes_on_buffers,
        notes_on_parts,
        unlike_columns,
        unlike_targets,
    )
    from fedlearn.models.torch.torch_model import TorchModel

    if isinstance(model, TorchModel):
        learner = config.training.learner or model.learner
        yield from notes_on(model, examples.at(slice(0, LOOKED_AT)), outputs, learner=learner)
        is_ours = not config.training.learner
        yield from notes_on_buffers(model)
        yield from notes_on_parts(model, is_measured_on_server=config.evaluation.where == "server")
        yield from notes_on_adapters(model, strategy=config.strategy.name)
        if config.secure.sums != "off":
            yield from clipped_statistics(model, clip=config.secure.clip)
        if config.model.name in TAKE_ROWS_AS_THEY_ARE and is_ours:
            yield from unlike_columns(dataset.spec, examples.at(slice(0, PART_OF_A_COLUMN)))
        yield from unlike_targets(dataset.spec, examples.at(slice(0, PART_OF_A_COLUMN)))


def initial_state(settings: Mapping[str, Any], state: State) -> State:
    """Return the state before round 1; the argument `state` makes no difference."""
    return first_state(from_flower(settings))


def first_state(config: RunConfig) -> State:
    """Return the state before round 1, the same in each process."""
    model = loaded(config)[1]
    first = model.initial_state(seed=config.seed)
    if not config.model.initial:
        return first
    tied = {name: first[stored] for name, stored in getattr(model, "tied", {}).items() if stored in first}
    return initial_from(config.model, first, {**getattr(model, "unsent", {}), **tied})


def evaluate_part(
    settings: Mapping[str, Any], state: State, start: int, stop: int, once: bool = False
) -> Evaluation:  # fmt: skip
    """Return the evaluation of `state` on the rows from `start` to `stop`; the caller adds parts in order.

    The rows are those of `rows_measured`.
    """
    config = from_flower(settings)
    dataset, model = loaded(config)
    part = rows_measured(config, dataset, once=once).at(start, stop)
    if isinstance(model, Scored) and model.is_scored:
        return model.evaluate_part(state, part)
    return model.evaluate(state, part)


def statistics_of(settings: Mapping[str, Any], state: State) -> Mapping[str, object]:
    """Return the statistics that a state of a model that counts records tells, as plain values."""
    model = loaded(from_flower(settings))[1]
    assert isinstance(model, Counting)
    return model.statistics(state)


def analysis_of(settings: Mapping[str, Any], state: State) -> Mapping[str, object]:
    """Return the answer of an analysis that a state tells, as plain values."""
    model = loaded(from_flower(settings))[1]
    assert isinstance(model, Analyzing)
    return model.analysis(state)


def finished_in(settings: Mapping[str, Any], state: State) -> Finished:
    """Return whether a state of a model that says so needs no further round."""
    model = loaded(from_flower(settings))[1]
    assert isinstance(model, Finishing)
    return model.finished(state)


def condensed_in(settings: Mapping[str, Any], state: State) -> State:
    """Return a new state as a model that condenses it leaves it."""
    model = loaded(from_flower(settings))[1]
    assert isinstance(model, Condensing)
    return model.condensed(state)


def scores_of_test_set(
    settings: Mapping[str, Any], state: State, outputs: Sequence[bytes], once: bool = False
) -> dict[str, float]:  # fmt: skip
    """Return the scores of the rows of `rows_measured` from the outputs of their parts; `state` is not used."""
    config = from_flower(settings)
    dataset, model = loaded(config)
    assert isinstance(model, Scored)
    return model.scores_of(outputs, rows_measured(config, dataset, once=once).targets)
