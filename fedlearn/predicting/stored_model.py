"""The model in a run folder: its states, the model that they belong to, the predictor of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fedlearn.config import RunConfig
from fedlearn.core.errors import UsageError, said
from fedlearn.core.state import State, digest_of
from fedlearn.core.state_files import frozen_of, unpack_state, unpack_with_tied
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model, planned_for
from fedlearn.models.model import Model
from fedlearn.plugins import objects
from fedlearn.plugins.tables import STATES
from fedlearn.predicting.node_model import state_on_node
from fedlearn.predicting.predictor import Predictor
from fedlearn.predicting.preparation import Preparation
from fedlearn.runs.file_names import BEST, FROZEN, MODEL
from fedlearn.runs.safe_reading import open_regular

EVERYTHING = '["*"]'  # for training.send: files of a model hold all of it
MOST_STATE_BYTES = 1 << 33  # of a file of a state, which is read as a whole


def state_in(folder: Path, name: str) -> State:
    """Return the state in a file of a run folder; a parameter with several names stands under each of them.

    Raises
    ------
    UsageError
        If the file is not there, or not what was written.
    """
    path = folder / name
    try:
        with open_regular(path, most=MOST_STATE_BYTES) as file:
            content = file.read()
        if not (digest := frozen_of(content)):
            return unpack_with_tied(content)
        path = folder / FROZEN
        with open_regular(path, most=MOST_STATE_BYTES) as file:
            frozen = unpack_state(file.read())
        if digest_of(frozen) != digest:
            raise ValueError("its arrays are others than those of the run")
        return unpack_with_tied(content, frozen)
    except FileNotFoundError:
        raise UsageError(f"{path}: it is not there: no round was committed, or none evaluated") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: put back the file that was written") from None
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, MemoryError, RecursionError) as error:
        raise UsageError(f"{path}: it is not what was written: {said(error)}") from None


def model_in(folder: Path, config: RunConfig, spec: DataSpec, *, is_whole: bool = True) -> Model:
    """Return the model of a run, without weights, on the CPU: this machine need not have the run's device.

    Parameters
    ----------
    config, spec
        The settings of the run, and the public facts of its data.
    is_whole
        Whether the state of the model is all of it, also what nodes keep for themselves.
    """
    objects.look_in(folder)
    update: dict[str, Any] = {"engine": config.engine.model_copy(update={"device": "cpu"})}
    if is_whole and config.training.learner not in STATES:
        update["training"] = config.training.model_copy(update={"send": EVERYTHING, "personal": ""})
    config = config.model_copy(update=update)
    return planned_for(load_model(config.model.name, spec, config.model.options, config.model.loss), config)


def state_of_node(folder: Path, config: RunConfig, spec: DataSpec, node: int) -> State:
    """Return the state that a node of a simulation uses; see `state_on_node`."""
    made = model_in(folder, config, spec, is_whole=False)
    return state_on_node(folder, node, state_in(folder, MODEL), made, config)


def predictor_in(folder: Path, config: RunConfig, spec: DataSpec, state: State) -> Predictor:
    """Return what predicts new rows with one of the states of a run."""
    return Predictor(Preparation.of(spec, config), model_in(folder, config, spec), state)


def chosen_state(folder: Path, config: RunConfig, spec: DataSpec, *, node: int | None, best: bool) -> State:
    """Return the final state, the best one, or that of a node; raise UsageError where two are asked for."""
    if node is not None and best:
        raise UsageError("client and best: give one of them: a client keeps only its latest layers")
    return state_in(folder, BEST if best else MODEL) if node is None else state_of_node(folder, config, spec, node)
