"""Imported once by the process that all workers are forked from; imports only, nothing may run here."""

import numpy  # noqa: F401
import torch  # noqa: F401

import fedlearn.engine.embedded.worker
import fedlearn.models.torch_model  # noqa: F401
