"""Hooks of Lightning: methods by which a module says how it is trained. Lightning itself is not imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STEP, OPTIMIZERS = "training_step", "configure_optimizers"
LEARNER = "lightning"  # which calls both
LIBRARIES = ("lightning", "pytorch_lightning")
NOT_CALLED = (
    "validation_step", "test_step", "predict_step", "backward", "optimizer_step", "optimizer_zero_grad",
    "lr_scheduler_step", "configure_gradient_clipping", "configure_callbacks", "configure_model", "train_dataloader",
    "val_dataloader", "test_dataloader",
)  # fmt: skip


def hook_of(module: object, name: str) -> Callable[..., Any] | None:
    """Return a hook that the module's own class has; None where it has none but that of Lightning's base class."""
    hook = getattr(module, name, None)
    is_own = callable(hook) and str(getattr(hook, "__module__", "")).partition(".")[0] not in LIBRARIES
    return hook if is_own else None


def not_called(module: object) -> list[str]:
    """Return the names of hooks of the module's own class that fedlearn does not call, sorted."""
    named = {name for name in dir(type(module)) if name in NOT_CALLED or name.startswith("on_")}
    return sorted(name for name in named if hook_of(module, name))
